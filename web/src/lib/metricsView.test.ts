import { expect, test } from "vitest";
import { queryOf, shownSpan, viewOf } from "./metricsView";
import { WHOLE } from "./spans";

const NOW = Date.parse("2026-11-23T12:34:56Z");
const at = (text: string): number => Date.parse(`2026-11-23T${text}:00Z`);

test("an address without a zoom follows the time", () => {
  const view = viewOf({ range: "last6Hours", club: "7" });
  expect([view.grain, view.club, view.fixed]).toEqual(["minute", "7", null]);
  expect(shownSpan(view, NOW)).toEqual({ startMs: at("06:35"), endMs: at("12:35") });
});

test("an address with a zoom shows the same span at any time", () => {
  const view = { ...viewOf({ range: "lastHour", grain: "minute" }), fixed: { startMs: at("11:35"), endMs: at("12:35") }, zoom: { from: at("12:00"), until: at("12:10") } };
  const opened = viewOf(queryOf(view));
  expect(opened).toEqual(view);
  expect(shownSpan(opened, NOW + 864e5)).toEqual({ startMs: at("11:35"), endMs: at("12:35") });
});

test.each([
  [{ range: "lastMonth", grain: "minute" }, "day"],
  [{ range: "lastMonth", grain: "hour" }, "hour"],
  [{ range: "lastDay", grain: "minute" }, "hour"],
  [{ range: "lastHour", grain: "day" }, "minute"],
  [{ start: "2026-01-01T00:00:00Z", end: "2026-11-01T00:00:00Z", grain: "minute" }, "day"],
])("%j has as many rows as one response: by %s", (query, grain) => {
  expect(viewOf(query).grain).toBe(grain);
});

test.each([
  [{ start: "1900-01-01T00:00:00Z", end: "2026-11-01T00:00:00Z" }],
  [{ start: "2026-11-01T00:00:00Z", end: "2026-11-01T00:00:00Z" }],
  [{ start: "no time", end: "2026-11-01T00:00:00Z" }],
  [{ range: "for ever", from: "2026-11-01T00:00:00Z", until: "2026-11-01T01:00:00Z" }],
])("%j has no span of its own", (query) => {
  expect([viewOf(query).fixed, viewOf(query).zoom, viewOf(query).range]).toEqual([null, WHOLE, "lastHour"]);
});
