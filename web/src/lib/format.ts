import { i18n } from "../i18n";
import type { Grain } from "./spans";

/** The user's own locale if it is of the chosen language (de-AT for German), else the language. */
function locale(): string {
  const language = i18n.global.locale.value;
  return navigator.languages.find((tag) => tag.startsWith(language)) ?? language;
}

export const formatNumber = (n: number): string => new Intl.NumberFormat(locale()).format(n);

export function formatPercent(part: number, whole: number): string {
  const format = new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 1 });
  const share = whole === 0 ? 0 : part / whole;
  return share > 0 && share < 0.0005 ? `<${format.format(0.001)}` : format.format(share);
}

export function formatTime(time: string | null, zone?: string): string {
  if (time === null) return "–";
  const options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium" };
  if (zone) options.timeZone = zone;
  return new Intl.DateTimeFormat(locale(), options).format(new Date(time));
}

/** Return the beginning of a bucket of the metrics, whose days are days of UTC. */
export function formatBucket(atMs: number, grain: Grain): string {
  const options: Intl.DateTimeFormatOptions =
    grain === "day"
      ? { day: "numeric", month: "short", year: "numeric", timeZone: "UTC", timeZoneName: "short" }
      : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(locale(), options).format(atMs);
}

/** Return a time of this day without its date, for times that are near. */
export function formatNearTime(atMs: number): string {
  const sameDay = new Date(atMs).toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(locale(), { ...(sameDay ? {} : { dateStyle: "medium" }), timeStyle: "short" }).format(atMs);
}

/** Return the seconds between two times, such as "1.2 s". */
export function formatSeconds(ms: number): string {
  return new Intl.NumberFormat(locale(), { style: "unit", unit: "second", unitDisplay: "narrow", maximumFractionDigits: 1 }).format(ms / 1_000);
}

export function formatDuration(seconds: number): string {
  const unit = seconds < 90 ? "second" : seconds < 5_400 ? "minute" : "hour";
  const value = seconds / { second: 1, minute: 60, hour: 3_600 }[unit];
  return new Intl.NumberFormat(locale(), { style: "unit", unit, unitDisplay: "long" }).format(Math.max(1, Math.round(value)));
}
