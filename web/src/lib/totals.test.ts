import { expect, test } from "vitest";
import type { Totals } from "../api/types";
import { reasons, secondsLeft, segments } from "./totals";

const NONE: Totals = {
  requested: 0, duplicates: 0, queued: 0, held: 0, scheduled: 0, cancelled: 0, expired: 0, sent: 0, delivered: 0,
  bounced: 0, in_flight: 0, suppressed: {}, failed: {},
};

const of = (status: string, totals: Totals): number => segments(totals).find((each) => each.status === status)!.count;

test("the segments add up to the requested notifications", () => {
  const totals: Totals = {
    ...NONE, requested: 100, sent: 40, delivered: 10, in_flight: 30, held: 5, scheduled: 10, bounced: 1,
    suppressed: { opted_out: 12, no_device: 3 }, failed: { no_template: 4 },
  };
  expect(segments(totals).reduce((total, each) => total + each.count, 0)).toBe(100);
  expect(of("in_flight", totals)).toBe(15);
  expect(of("held", totals)).toBe(5);
});

test("notifications counted as held never exceed those in flight", () => {
  const totals: Totals = { ...NONE, requested: 10, sent: 8, in_flight: 2, held: 5 };
  expect(segments(totals).reduce((total, each) => total + each.count, 0)).toBe(10);
  expect(of("held", totals)).toBe(2);
  expect(of("in_flight", totals)).toBe(0);
});

test("reasons are sorted by their number", () => {
  const found = reasons({ ...NONE, suppressed: { no_device: 1, opted_out: 3 }, failed: { no_template: 2 } });
  expect(found.map((each) => each.reason)).toEqual(["opted_out", "no_template", "no_device"]);
});

test("the time left follows from the rate", () => {
  expect(secondsLeft({ atMs: 0, ended: 0 }, { atMs: 2_000, ended: 100 }, 600)).toBe(10);
});

test("without progress there is no estimate", () => {
  expect(secondsLeft({ atMs: 0, ended: 50 }, { atMs: 2_000, ended: 50 }, 600)).toBeNull();
  expect(secondsLeft({ atMs: 5, ended: 50 }, { atMs: 5, ended: 60 }, 600)).toBeNull();
});
