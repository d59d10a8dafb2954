/** Times that a person enters as a local time in a time zone. */

function offsetMs(zone: string, atMs: number): number {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  }).formatToParts(atMs);
  const part = (name: string): number => Number(parts.find((each) => each.type === name)?.value);
  const local = Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"), part("second"));
  return local - Math.floor(atMs / 1_000) * 1_000;
}

/**
 * Return the instant of a local time such as `2026-11-24T09:30` in a zone, as RFC 3339 in UTC; null if the zone's clocks
 * leave this time out. A time that occurs twice is the earlier one.
 */
export function instantOf(local: string, zone: string): string | null {
  const asUtc = Date.parse(`${local}Z`);
  if (Number.isNaN(asUtc)) return null;
  const candidates = [asUtc - 86_400_000, asUtc + 86_400_000].map((near) => asUtc - offsetMs(zone, near));
  const valid = candidates.filter((at) => at + offsetMs(zone, at) === asUtc);
  return valid.length === 0 ? null : new Date(Math.min(...valid)).toISOString().replace(".000", "");
}

/** Return a time as the local time of a zone, such as `2026-11-24T09:30`. */
export function localOf(time: string, zone: string): string {
  const atMs = Date.parse(time);
  return new Date(atMs + offsetMs(zone, atMs)).toISOString().slice(0, 16);
}

/** Return the key of a message if no send can wait for a local time of a zone. */
export function timeError(local: string, zone: string, nowMs: number): string | undefined {
  const instant = instantOf(local, zone);
  if (instant === null) return local ? "compose.gap" : "compose.required";
  return Date.parse(instant) <= nowMs ? "compose.past" : undefined;
}

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export const allZones = (): string[] => ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")];
