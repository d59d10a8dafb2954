import { STATUSES, type StatusName, type Totals } from "../api/types";

export interface Segment {
  status: StatusName;
  count: number;
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((total, n) => total + n, 0);

/** Return the number of notifications in each status; the numbers add up to `requested`. */
export function segments(totals: Totals): Segment[] {
  const waiting = Math.min(totals.in_flight, totals.held + totals.scheduled);
  const held = Math.min(totals.held, waiting);
  const counts: Record<StatusName, number> = {
    delivered: totals.delivered,
    sent: totals.sent,
    in_flight: totals.in_flight - waiting,
    scheduled: waiting - held,
    held,
    suppressed: sum(totals.suppressed),
    cancelled: totals.cancelled,
    expired: totals.expired,
    bounced: totals.bounced,
    failed: sum(totals.failed),
  };
  return STATUSES.map((status) => ({ status, count: counts[status] }));
}

/** Return the reasons of suppressed and failed notifications, the most frequent first. */
export function reasons(totals: Totals): { status: "suppressed" | "failed"; reason: string; count: number }[] {
  return (["suppressed", "failed"] as const)
    .flatMap((status) => Object.entries(totals[status]).map(([reason, count]) => ({ status, reason, count })))
    .sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason));
}

/**
 * Return the estimated seconds until a send has ended, from two counts of its ended notifications; null if none ended in
 * between.
 */
export function secondsLeft(
  before: { atMs: number; ended: number },
  now: { atMs: number; ended: number },
  requested: number,
): number | null {
  const rate = (now.ended - before.ended) / ((now.atMs - before.atMs) / 1_000);
  return rate > 0 && Number.isFinite(rate) ? (requested - now.ended) / rate : null;
}
