/** Counts by bucket for the chart. */

import type { Metrics } from "../api/types";

/** Return the counts of each measure by the beginning of the bucket, moved by `shiftMs`. */
export function countsByMeasure(metrics: Metrics | null, shiftMs = 0): Map<string, Map<number, number>> {
  const found = new Map<string, Map<number, number>>();
  for (const row of metrics?.rows ?? []) {
    if (row.bucket == null || row.measure == null) continue;
    const counts = found.get(row.measure) ?? new Map<number, number>();
    found.set(row.measure, counts);
    const bucket = Date.parse(row.bucket) + shiftMs;
    counts.set(bucket, (counts.get(bucket) ?? 0) + (row.count_total ?? 0));
  }
  return found;
}

/** Return a number for each bucket: the counts of the measures together. */
export function totalsOf(counts: Map<string, Map<number, number>>, measures: readonly string[], buckets: readonly number[]): number[] {
  return buckets.map((bucket) => measures.reduce((sum, measure) => sum + (counts.get(measure)?.get(bucket) ?? 0), 0));
}
