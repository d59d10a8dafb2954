/** Spans of the metrics page, aligned to whole buckets of UTC. */

export type Grain = "minute" | "hour" | "day";
export const GRAINS: readonly Grain[] = ["minute", "hour", "day"];
export const GRAIN_MS: Record<Grain, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

export const RANGES = {
  lastHour: { ms: 3_600_000, grain: "minute" },
  last6Hours: { ms: 21_600_000, grain: "minute" },
  lastDay: { ms: 86_400_000, grain: "hour" },
  lastWeek: { ms: 604_800_000, grain: "hour" },
  lastMonth: { ms: 2_592_000_000, grain: "day" },
} as const satisfies Record<string, { ms: number; grain: Grain }>;
export type Range = keyof typeof RANGES;
export const RANGE_NAMES = Object.keys(RANGES) as Range[];

/** The first ends of a notification, in the order of the stack: each notification has one, so their sum is a number of notifications. */
export const ONCE = ["sent", "suppressed", "cancelled", "expired", "failed"] as const;
/** What a provider reports later of a sent notification, which is counted as sent, too. */
export const REPORTED = ["delivered", "bounced"] as const;
export const MEASURES = [...ONCE, ...REPORTED];
/** The most rows of a response of the API. */
export const MAX_ROWS = 10_000;
/** The most buckets of a span: a response has a row for each bucket and measure. */
export const MAX_BUCKETS = Math.floor(MAX_ROWS / MEASURES.length);

export interface Span {
  startMs: number;
  endMs: number;
}

/** Return the span that ends with the bucket that contains `nowMs`. */
export function spanOf(range: Range, grain: Grain, nowMs: number): Span {
  const step = GRAIN_MS[grain];
  const endMs = (Math.floor(nowMs / step) + 1) * step;
  const length = Math.max(step, Math.floor(RANGES[range].ms / step) * step);
  return { startMs: endMs - length, endMs };
}

/** Return the grains in which a span has at least one bucket, and not more than a response can have. The last one always fits. */
export function grainsOf(lengthMs: number): Grain[] {
  const fit = GRAINS.filter((grain) => lengthMs / GRAIN_MS[grain] <= MAX_BUCKETS && GRAIN_MS[grain] <= lengthMs);
  return fit.length ? fit : lengthMs < GRAIN_MS.hour ? ["minute"] : ["day"];
}

export const spanBefore = (span: Span): Span => ({ startMs: 2 * span.startMs - span.endMs, endMs: span.startMs });

/** Return the beginnings of all buckets of a span. */
export function bucketsOf(span: Span, grain: Grain): number[] {
  const step = GRAIN_MS[grain];
  return Array.from({ length: Math.round((span.endMs - span.startMs) / step) }, (_, index) => span.startMs + index * step);
}

/** Return the beginning of the first bucket that is not complete: its end and the grace lie after the watermark. */
export function incompleteFrom(span: Span, grain: Grain, watermark: string | null, graceMs: number): number | null {
  const step = GRAIN_MS[grain];
  const known = watermark === null ? -Infinity : Date.parse(watermark);
  return bucketsOf(span, grain).find((bucket) => bucket + step + graceMs > known) ?? null;
}

/** A part of a span, in milliseconds since the epoch; null: to its beginning or end. */
export interface Zoom {
  from: number | null;
  until: number | null;
}
export const WHOLE: Zoom = { from: null, until: null };
export type Step = "in" | "out" | "earlier" | "later";

/** Return the shown part after a step: half or twice as long, or moved by half of its length. */
export function stepped(zoom: Zoom, span: Span, grain: Grain, step: Step): Zoom {
  const buckets = Math.round((span.endMs - span.startMs) / GRAIN_MS[grain]);
  const first = zoom.from === null ? 0 : Math.max(0, Math.ceil((zoom.from - span.startMs) / GRAIN_MS[grain]));
  const last = zoom.until === null ? buckets : Math.min(buckets, Math.floor((zoom.until - span.startMs) / GRAIN_MS[grain]));
  const length = Math.max(1, last - first);
  const wanted = Math.min(buckets, Math.max(1, { in: Math.ceil(length / 2), out: length * 2, earlier: length, later: length }[step]));
  const moved = { in: Math.floor((length - wanted) / 2), out: -Math.floor((wanted - length) / 2), earlier: -Math.ceil(length / 2), later: Math.ceil(length / 2) }[step];
  const begin = Math.min(Math.max(0, first + moved), buckets - wanted);
  return zoomOf(begin, begin + wanted, span, grain);
}

/** Return the part with the buckets [first, end) of a span. */
export function zoomOf(first: number, end: number, span: Span, grain: Grain): Zoom {
  const from = span.startMs + first * GRAIN_MS[grain];
  const until = span.startMs + end * GRAIN_MS[grain];
  return from <= span.startMs && until >= span.endMs ? WHOLE : { from, until };
}
