import { expect, test } from "vitest";
import type { Metrics } from "../api/types";
import { breakdownOf, rateOf, reasonsOf } from "./breakdown";

const row = (type: string, channel: string, measure: string, count: number): Metrics["rows"][number] => ({
  bucket: "2026-11-21T12:00:00Z", type, channel, measure, count_total: count,
});
const ROWS = [
  row("news", "push", "sent", 6), row("news", "push", "delivered", 5), row("news", "email", "sent", 2), row("news", "email", "bounced", 1),
  row("news", "push", "failed", 1), row("news", "push", "expired", 2), row("goal", "push", "suppressed", 40), row("news", "push", "sent", 4),
];

test("a notification that was sent and then delivered or returned is counted once", () => {
  expect(breakdownOf(ROWS, "type")).toEqual([
    { name: "goal", ended: 40, sent: 0, suppressed: 40, failed: 0, bounced: 0 },
    { name: "news", ended: 15, sent: 12, suppressed: 0, failed: 3, bounced: 1 },
  ]);
});

test("the same rows are summed by channel", () => {
  expect(breakdownOf(ROWS, "channel").map((each) => [each.name, each.ended])).toEqual([["push", 53], ["email", 2]]);
});

test.each([
  [7_200, 3_600_000, { n: 2, unit: "second" }],
  [90, 3_600_000, { n: 1.5, unit: "minute" }],
  [1, 7_200_000, { n: 0.5, unit: "hour" }],
])("%i notifications in %i ms are %o", (count, ms, rate) => {
  expect(rateOf(count, ms)).toEqual(rate);
});

test("reasons of all buckets are summed, the largest first", () => {
  const because = (measure: string, reason: string, count: number): Metrics["rows"][number] => ({ ...row("", "", measure, count), reason });
  expect(reasonsOf([because("failed", "no_template", 2), because("suppressed", "opted_out", 3), because("failed", "no_template", 5), because("suppressed", "no_device", 3)])).toEqual([
    { status: "failed", reason: "no_template", count: 7 },
    { status: "suppressed", reason: "no_device", count: 3 },
    { status: "suppressed", reason: "opted_out", count: 3 },
  ]);
});
