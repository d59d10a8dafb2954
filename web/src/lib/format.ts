import { i18n } from "../i18n";
import type { Grain } from "./spans";

/** The user's own locale if it is of the chosen language (de-AT for German), else the language. */
function locale(): string {
  const language = i18n.global.locale.value;
  return navigator.languages.find((tag) => tag.startsWith(language)) ?? language;
}

/** Formatters by locale and options. To create one takes much longer than to format with it, and a chart has many buckets. */
const numberFormats = new Map<string, Intl.NumberFormat>();
const timeFormats = new Map<string, Intl.DateTimeFormat>();

function cached<Format>(formats: Map<string, Format>, options: object, make: (locale: string) => Format): Format {
  const of = locale();
  const key = `${of} ${JSON.stringify(options)}`;
  const format = formats.get(key) ?? make(of);
  formats.set(key, format);
  return format;
}

const numbers = (options: Intl.NumberFormatOptions = {}) => cached(numberFormats, options, (of) => new Intl.NumberFormat(of, options));
const times = (options: Intl.DateTimeFormatOptions) => cached(timeFormats, options, (of) => new Intl.DateTimeFormat(of, options));

export const formatNumber = (n: number | bigint): string => numbers().format(n);

/** Return a number; a dash if it is unknown. */
export const formatKnown = (n: number | null): string => (n === null ? "–" : formatNumber(n));

export function formatPercent(part: number, whole: number): string {
  const format = numbers({ style: "percent", maximumFractionDigits: 1 });
  const share = whole === 0 ? 0 : part / whole;
  return share > 0 && share < 0.0005 ? `<${format.format(0.001)}` : format.format(share);
}

/** Return a duration with the unit that suits it. */
export function formatMs(ms: number): string {
  const [n, unit] = ms < 1_000 ? [ms, "millisecond"] : ms < 120_000 ? [ms / 1_000, "second"] : ms < 7_200_000 ? [ms / 60_000, "minute"] : [ms / 3_600_000, "hour"];
  return numbers({ style: "unit", unit: unit as string, unitDisplay: "narrow", maximumSignificantDigits: 3 }).format(n as number);
}

export const formatRate = (n: number): string => numbers({ maximumFractionDigits: 1 }).format(n);

export function formatTime(time: string | null, zone?: string): string {
  if (time === null) return "–";
  const options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium" };
  if (zone) options.timeZone = zone;
  return times(options).format(new Date(time));
}

/** Return the name of a day of the week, from Monday (0) on. */
export const weekdayName = (index: number): string => times({ weekday: "long", timeZone: "UTC" }).format(Date.UTC(2024, 0, 1 + index));

/** Return the beginning of a bucket of the metrics, whose days are days of UTC. */
export function formatBucket(atMs: number, grain: Grain): string {
  const options: Intl.DateTimeFormatOptions =
    grain === "day"
      ? { day: "numeric", month: "short", year: "numeric", timeZone: "UTC", timeZoneName: "short" }
      : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return times(options).format(atMs);
}

/** Return the name of a language, such as "German (de)"; a code that names none as it is. */
export function formatLanguage(code: string): string {
  try {
    const name = new Intl.DisplayNames(locale(), { type: "language", fallback: "none" }).of(code.replaceAll("_", "-"));
    return name ? `${name} (${code})` : code;
  } catch {
    return code; // A table of users may have any text.
  }
}

/** Return the present time of day in a zone; empty if this browser does not know the zone. */
export function formatTimeIn(zone: string): string {
  try {
    return times({ timeStyle: "short", timeZone: zone }).format(Date.now());
  } catch {
    return ""; // As above.
  }
}

/** Return the day of a time. */
export const formatDay = (time: string): string => times({ dateStyle: "long" }).format(new Date(time));

/** Return a time of this day without its date, for times that are near. */
export function formatNearTime(atMs: number): string {
  const sameDay = new Date(atMs).toDateString() === new Date().toDateString();
  return times({ ...(sameDay ? {} : { dateStyle: "medium" }), timeStyle: "short" }).format(atMs);
}

/** Return the seconds between two times, such as "1.2 s". */
export function formatSeconds(ms: number): string {
  return numbers({ style: "unit", unit: "second", unitDisplay: "narrow", maximumFractionDigits: 1 }).format(ms / 1_000);
}

export function formatDuration(seconds: number): string {
  const unit = seconds < 90 ? "second" : seconds < 5_400 ? "minute" : "hour";
  const value = seconds / { second: 1, minute: 60, hour: 3_600 }[unit];
  return numbers({ style: "unit", unit, unitDisplay: "long" }).format(Math.max(1, Math.round(value)));
}
