import { expect, test } from "vitest";
import type { SendRow, Totals } from "../api/types";
import { Pace, reasons, rowSegments, segments, STALE_MS, unended } from "./totals";

const NONE: Totals = {
  requested: 0, duplicates: 0, queued: 0, held: 0, scheduled: 0, collected: 0, digested: 0, cancelled: 0, expired: 0, sent: 0, delivered: 0,
  bounced: 0, in_flight: 0, suppressed: {}, failed: {},
};

const of = (status: string, totals: Totals): number => segments(totals).find((each) => each.status === status)!.count;

test("the segments add up to the requested notifications", () => {
  const totals: Totals = {
    ...NONE, requested: 100, sent: 40, delivered: 10, in_flight: 30, held: 5, scheduled: 10, collected: 2, bounced: 1, digested: 3,
    suppressed: { opted_out: 9, no_device: 3 }, failed: { no_template: 4 },
  };
  expect(segments(totals).reduce((total, each) => total + each.count, 0)).toBe(100);
  expect(of("in_flight", totals)).toBe(13);
  expect([of("collected", totals), of("digested", totals)]).toEqual([2, 3]);
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

test("notifications that wait do not flow", () => {
  const totals: Totals = { ...NONE, requested: 100, in_flight: 60, held: 10, scheduled: 20, collected: 5 };
  expect(unended(totals)).toEqual({ waiting: 35, flowing: 25 });
  expect(unended({ ...NONE, in_flight: 2, held: 5 })).toEqual({ waiting: 2, flowing: 0 });
});

test("the rate is that of the last ten seconds", () => {
  const pace = new Pace();
  expect(pace.rate(0)).toBeNull();
  pace.add(0, 0, 0);
  expect(pace.rate(0)).toBeNull();
  pace.add(10_000, 1_000, 10_000);
  expect(pace.rate(10_000)).toBe(100);
  pace.add(20_000, 1_500, 20_000);
  expect(pace.rate(20_000)).toBe(50);
  pace.add(30_000, 1_500, 30_000);
  expect(pace.rate(30_000)).toBeNull();
});

test("a rate ends when no count follows", () => {
  const pace = new Pace();
  pace.add(0, 0, 1_000);
  pace.add(2_000, 100, 3_000);
  expect(pace.rate(3_000 + STALE_MS)).toBe(50);
  expect(pace.rate(3_001 + STALE_MS)).toBeNull();
});

test("counts of a minute apart have a rate until three of them are missing", () => {
  const pace = new Pace();
  pace.add(0, 0, 0);
  pace.add(60_000, 600, 60_000);
  expect([pace.rate(240_000), pace.rate(240_001)]).toEqual([10, null]);
});

test("a pause begins the measurement again", () => {
  const pace = new Pace();
  pace.add(0, 0, 0);
  pace.add(1_000, 100, 1_000);
  pace.clear();
  expect(pace.rate(1_000)).toBeNull();
  pace.add(60_000, 100, 60_000);
  pace.add(61_000, 150, 61_000);
  expect(pace.rate(61_000)).toBe(50);
});

test("a listed send's bar has each requested notification, or none without counts", () => {
  const row = { requested: 100, published: 40, suppressed: 20, failed: 3, cancelled: 5, in_flight: 30, digested: 0 } as SendRow;
  const parts = Object.fromEntries(rowSegments(row).map((part) => [part.status, part.count]));
  expect(parts).toEqual({ sent: 40, in_flight: 30, digested: 0, suppressed: 20, cancelled: 5, expired: 2, failed: 3 });
  expect(rowSegments({ ...row, failed: null })).toEqual([]);
});
