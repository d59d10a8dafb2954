import { STATUSES, type SendRow, type StatusName, type Totals } from "../api/types";

export interface Segment {
  status: StatusName;
  count: number;
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((total, n) => total + n, 0);

/** Return the notifications that wait for a time: the send's, the end of quiet hours, or that of a digest. */
function waitingOf(totals: Totals): { held: number; collected: number; scheduled: number } {
  const waiting = Math.min(totals.in_flight, totals.held + totals.collected + totals.scheduled);
  const held = Math.min(totals.held, waiting);
  const collected = Math.min(totals.collected, waiting - held);
  return { held, collected, scheduled: waiting - held - collected };
}

/** Return the number of notifications in each status. The API is wrong if the numbers do not add up to `requested`. */
export function segments(totals: Totals): Segment[] {
  const { held, collected, scheduled } = waitingOf(totals);
  const counts: Record<StatusName, number> = {
    delivered: totals.delivered,
    sent: totals.sent,
    in_flight: totals.in_flight - held - collected - scheduled,
    scheduled,
    held,
    collected,
    digested: totals.digested,
    suppressed: sum(totals.suppressed),
    cancelled: totals.cancelled,
    expired: totals.expired,
    bounced: totals.bounced,
    failed: sum(totals.failed),
  };
  return STATUSES.map((status) => ({ status, count: counts[status] }));
}

/** Return the parts of a listed send's bar, the largest states first; none if its counts are unknown. */
export function rowSegments(row: SendRow): Segment[] {
  const { requested, published, digested, suppressed, failed, cancelled, in_flight: inFlight } = row;
  if (requested === null || published === null || digested === null || suppressed === null || failed === null || cancelled === null || inFlight === null) return [];
  const expired = Math.max(0, requested - published - digested - suppressed - failed - cancelled - inFlight);
  const counts = { sent: published, in_flight: inFlight, digested, suppressed, cancelled, expired, failed };
  return (Object.keys(counts) as (keyof typeof counts)[]).map((status) => ({ status, count: counts[status] }));
}

/** Return the reasons of suppressed and failed notifications, the most frequent first. */
export function reasons(totals: Totals): { status: "suppressed" | "failed"; reason: string; count: number }[] {
  return (["suppressed", "failed"] as const)
    .flatMap((status) => Object.entries(totals[status]).map(([reason, count]) => ({ status, reason, count })))
    .sort((a, b) => b.count - a.count || a.reason.localeCompare(b.reason));
}

/** The time over which a rate is measured, in milliseconds. */
const WINDOW_MS = 10_000;
/** A rate is no longer shown after this time without a new count, or three times the last pause between counts. */
export const STALE_MS = 15_000;

/** The rate at which the notifications of a send end, from its latest counts. */
export class Pace {
  private points: { atMs: number; ended: number }[] = [];
  /** The browser's time of the last count. */
  heardMs = 0;

  /**
   * @param atMs The server's time of the count.
   * @param nowMs The browser's time.
   */
  add(atMs: number, ended: number, nowMs: number): void {
    while (this.points.length > 1 && atMs - this.points[0]!.atMs > WINDOW_MS) this.points.shift();
    this.points.push({ atMs, ended });
    this.heardMs = nowMs;
  }

  /** Begin again, for example because the send was paused. */
  clear(): void {
    this.points = [];
  }

  /** Return the notifications per second; null if none ended, or if the last count is old. */
  rate(nowMs: number): number | null {
    const [first, last] = [this.points[0], this.points.at(-1)];
    if (!first || !last || last.atMs <= first.atMs || last.ended <= first.ended) return null;
    const pauseMs = last.atMs - this.points.at(-2)!.atMs;
    if (nowMs - this.heardMs > Math.max(STALE_MS, 3 * pauseMs)) return null;
    return ((last.ended - first.ended) * 1_000) / (last.atMs - first.atMs);
  }
}

/** Return the numbers of notifications that wait for a time, and of the other ones that have not ended. */
export function unended(totals: Totals): { waiting: number; flowing: number } {
  const { held, collected, scheduled } = waitingOf(totals);
  const waiting = held + collected + scheduled;
  return { waiting, flowing: totals.in_flight - waiting };
}
