/** What becomes of a send, as a dry run says. */

import type { Forecast, ForecastReason } from "../api/types";

/** A line of the last page: notifications that arrive at once, that wait, that go if needed, or that do not arrive. */
export interface ForecastLine extends ForecastReason {
  group: "arrives" | "waits" | "needed" | "not";
}

type Channel = Forecast["channels"][number];

/** Return the lines of a channel: those that arrive first, then those that wait or go if needed, then the others by number. */
export function linesOf(channel: Channel): ForecastLine[] {
  const arrives: ForecastLine = {
    group: "arrives", status: "sent", reason: null, count_total: channel.deliverable, first_at: null, last_at: null,
  };
  const others = channel.reasons.map((each): ForecastLine => ({ ...each, group: ["held", "scheduled", "collected"].includes(each.status) ? "waits" : "not" }));
  const needed: ForecastLine = { ...arrives, group: "needed", status: "scheduled", count_total: channel.if_needed };
  const order = { arrives: 0, waits: 1, needed: 2, not: 3 };
  return [arrives, ...(needed.count_total ? [needed] : []), ...others].sort((a, b) => order[a.group] - order[b.group] || b.count_total - a.count_total);
}

/** Return the numbers of all channels together. */
export function sumsOf(forecast: Forecast): { arrives: number; waits: number; needed: number; not: number } {
  const sums = { arrives: 0, waits: 0, needed: 0, not: 0 };
  for (const channel of forecast.channels) for (const line of linesOf(channel)) sums[line.group] += line.count_total;
  return sums;
}
