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
