import { expect, test } from "vitest";
import type { Metrics } from "../api/types";
import { countsByMeasure, totalsOf } from "./series";

const START = Date.parse("2026-11-23T12:00:00Z");

function metrics(...rows: [string, string, number][]): Metrics {
  return { rows: rows.map(([bucket, measure, count_total]) => ({ bucket, measure, count_total })) } as unknown as Metrics;
}

test("rows of one bucket and measure are added", () => {
  const counts = countsByMeasure(metrics(["2026-11-23T12:00:00Z", "sent", 2], ["2026-11-23T12:00:00Z", "sent", 3]));
  expect(counts.get("sent")?.get(START)).toBe(5);
});

test("the previous period lies on the present buckets", () => {
  const counts = countsByMeasure(metrics(["2026-11-23T11:00:00Z", "sent", 4]), 3_600_000);
  expect(totalsOf(counts, ["sent"], [START])).toEqual([4]);
});

test("totals have a number for each bucket and only the measures that are shown", () => {
  const counts = countsByMeasure(metrics(["2026-11-23T12:00:00Z", "sent", 2], ["2026-11-23T12:00:00Z", "failed", 1], ["2026-11-23T12:00:00Z", "other", 9]));
  expect(totalsOf(counts, ["sent", "failed"], [START, START + 60_000])).toEqual([3, 0]);
});

test("without metrics each total is zero", () => {
  expect(totalsOf(countsByMeasure(null), ["sent"], [START])).toEqual([0]);
});
