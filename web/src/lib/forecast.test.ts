import { expect, test } from "vitest";
import type { Forecast } from "../api/types";
import { linesOf, sumsOf } from "./forecast";

const reason = (status: string, reason: string | null, count_total: number) => ({ status, reason, count_total, first_at: null, last_at: null });
const forecast = {
  dry_run: true, requested: 12, duplicates: 0, estimated: false, samples: [], warnings: [],
  channels: [
    {
      channel: "push", requested: 10, deliverable: 4, held: 2, scheduled: 0, if_needed: 0, suppressed: 3, failed: 1, expired: 0,
      reasons: [reason("failed", "template_error", 1), reason("suppressed", "no_device", 3), reason("held", null, 2)],
    },
    { channel: "email", requested: 2, deliverable: 1, held: 0, scheduled: 0, if_needed: 1, suppressed: 0, failed: 0, expired: 0, reasons: [] },
  ],
} as unknown as Forecast;

test("lines begin with what arrives, and end with the reasons against it", () => {
  expect(linesOf(forecast.channels[0]!).map((each) => [each.group, each.status, each.count_total])).toEqual([
    ["arrives", "sent", 4],
    ["waits", "held", 2],
    ["not", "suppressed", 3],
    ["not", "failed", 1],
  ]);
});

test("the groups of all channels add up to the requested notifications", () => {
  const sums = sumsOf(forecast);
  expect(sums).toEqual({ arrives: 5, waits: 2, needed: 1, not: 4 });
  expect(sums.arrives + sums.waits + sums.needed + sums.not).toBe(forecast.requested);
});
