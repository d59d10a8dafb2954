import type { OverviewHealth } from "../api/types";

/** A directory that is older does not show what users have changed. The heartbeat of its source is written each second. */
const STALE_S = 60;
/** Fewer records than these wait while others are processed. */
const FEW = 100;

export type HealthWord = "ok" | "busy" | "stale" | "noHeartbeat";

/** Return the state of an installation, the worst one that applies. */
export function healthWord({ lag_total: lag, staleness_s: staleness }: OverviewHealth): HealthWord {
  if (staleness === null) return "noHeartbeat";
  if (staleness > STALE_S) return "stale";
  return lag > FEW ? "busy" : "ok";
}

/** Return the started hours of the day of a moment, in the computer's own zone. */
export function hoursOfDay(now: Date): number {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  return Math.max(1, Math.ceil((now.getTime() - midnight.getTime()) / 3_600_000));
}
