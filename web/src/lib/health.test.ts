import { expect, test } from "vitest";
import { healthWord, hoursOfDay } from "./health";

test.each([
  [0, 1.5, "ok"],
  [100, 60, "ok"],
  [101, 1.5, "busy"],
  [101, 61, "stale"],
  [0, null, "noHeartbeat"],
])("%d waiting records and a directory of %s s are %s", (lag_total, staleness_s, word) => {
  expect(healthWord({ lag_total, staleness_s })).toBe(word);
});

test.each([
  ["2026-05-03T00:00:00", 1],
  ["2026-05-03T00:59:59", 1],
  ["2026-05-03T01:00:01", 2],
  ["2026-05-03T23:59:59", 24],
])("at %s, %d hours of the day have begun", (time, hours) => {
  expect(hoursOfDay(new Date(time))).toBe(hours);
});
