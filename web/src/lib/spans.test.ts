import { expect, test } from "vitest";
import { bucketsOf, incompleteFrom, spanBefore, spanOf } from "./spans";

const NOW = Date.parse("2026-11-23T12:34:56Z");

test("a span ends with the current bucket", () => {
  const span = spanOf("lastHour", "minute", NOW);
  expect(new Date(span.endMs).toISOString()).toBe("2026-11-23T12:35:00.000Z");
  expect(bucketsOf(span, "minute")).toHaveLength(60);
});

test("a grain that is longer than the range has one bucket", () => {
  expect(bucketsOf(spanOf("lastHour", "day", NOW), "day")).toEqual([Date.parse("2026-11-23T00:00:00Z")]);
});

test("the span before has the same length and ends where the span begins", () => {
  expect(spanBefore({ startMs: 100, endMs: 160 })).toEqual({ startMs: 40, endMs: 100 });
});

test("a bucket is complete once the watermark has passed its end and the grace", () => {
  const span = spanOf("lastHour", "minute", NOW);
  const at = (watermark: string | null) => incompleteFrom(span, "minute", watermark, 30_000);
  expect(at("2026-11-23T12:31:30Z")).toBe(Date.parse("2026-11-23T12:31:00Z"));
  expect(at("2026-11-23T12:31:29Z")).toBe(Date.parse("2026-11-23T12:30:00Z"));
  expect(at("2026-11-23T13:00:00Z")).toBeNull();
  expect(at(null)).toBe(span.startMs);
});
