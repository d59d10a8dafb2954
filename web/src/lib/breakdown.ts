/** The counts of a span by category or channel: how many ended, how fast, and how many of them failed. */

import type { Metrics } from "../api/types";
import { ONCE } from "./spans";

export interface BreakdownRow {
  name: string;
  /** Notifications that ended, each counted once. */
  ended: number;
  sent: number;
  suppressed: number;
  /** Notifications that should have been sent: failed and expired. */
  failed: number;
  /** Sent notifications that were returned. */
  bounced: number;
}

/** Return a row for each value of a dimension, the largest first. */
export function breakdownOf(rows: Metrics["rows"], dimension: "type" | "channel"): BreakdownRow[] {
  const found = new Map<string, Map<string, number>>();
  for (const row of rows) {
    const [name, measure] = [row[dimension] ?? "", row.measure ?? ""];
    const counts = found.get(name) ?? new Map<string, number>();
    found.set(name, counts.set(measure, (counts.get(measure) ?? 0) + (row.count_total ?? 0)));
  }
  const rowOf = ([name, counts]: [string, Map<string, number>]): BreakdownRow => {
    const of = (...measures: readonly string[]): number => measures.reduce((sum, each) => sum + (counts.get(each) ?? 0), 0);
    return { name, ended: of(...ONCE), sent: of("sent"), suppressed: of("suppressed"), failed: of("failed", "expired"), bounced: of("bounced") };
  };
  return [...found].map(rowOf).sort((a, b) => b.ended - a.ended || a.name.localeCompare(b.name));
}

/** Return a rate by the shortest unit of time in which it is at least one. */
export function rateOf(count: number, ms: number): { n: number; unit: "second" | "minute" | "hour" } {
  const a = (unitMs: number): number => (count * unitMs) / ms;
  if (a(1_000) >= 1) return { n: a(1_000), unit: "second" };
  return a(60_000) >= 1 ? { n: a(60_000), unit: "minute" } : { n: a(3_600_000), unit: "hour" };
}

export interface ReasonRow {
  status: string;
  reason: string;
  count: number;
}

/** Return the counts by status and reason of all buckets together, the largest first. */
export function reasonsOf(rows: Metrics["rows"]): ReasonRow[] {
  const found = new Map<string, ReasonRow>();
  for (const { measure = "", reason = "", count_total = 0 } of rows) {
    const row = found.get(`${measure} ${reason}`) ?? { status: measure, reason, count: 0 };
    found.set(`${measure} ${reason}`, { ...row, count: row.count + Number(count_total) });
  }
  return [...found.values()].sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason));
}
