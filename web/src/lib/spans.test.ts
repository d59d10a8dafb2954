import { expect, test } from "vitest";
import { bucketsOf, GRAIN_MS, grainsOf, incompleteFrom, MAX_BUCKETS, MAX_ROWS, MEASURES, RANGES, spanBefore, spanOf, stepped, WHOLE, type Step } from "./spans";

const NOW = Date.parse("2026-11-23T12:34:56Z");

test("a span ends with the current bucket", () => {
  const span = spanOf("lastHour", "minute", NOW);
  expect(new Date(span.endMs).toISOString()).toBe("2026-11-23T12:35:00.000Z");
  expect(bucketsOf(span, "minute")).toHaveLength(60);
});

test("a response has all rows of each grain that is offered", () => {
  for (const { ms, grain } of Object.values(RANGES)) {
    expect(grainsOf(ms)).toContain(grain);
    for (const each of grainsOf(ms)) expect((ms / GRAIN_MS[each]) * MEASURES.length).toBeLessThanOrEqual(MAX_ROWS);
  }
  expect(grainsOf((MAX_BUCKETS + 1) * GRAIN_MS.minute)).toEqual(["hour"]);
  expect(grainsOf(1)).toEqual(["minute"]);
});

test.each<[Step, string, string]>([
  ["in", "12:10", "12:30"],
  ["out", "11:40", "13:00"],
  ["earlier", "11:40", "12:20"],
  ["later", "12:20", "13:00"],
])("a step %s shows %s to %s", (step, from, until) => {
  const time = (text: string) => Date.parse(`2026-11-23T${text}:00Z`);
  const span = { startMs: time("11:00"), endMs: time("13:00") };
  expect(stepped({ from: time("12:00"), until: time("12:40") }, span, "minute", step)).toEqual({ from: time(from), until: time(until) });
});

test("steps stay in the span, and show at least one bucket", () => {
  const span = { startMs: 0, endMs: 10 * 60_000 };
  expect(stepped({ from: 0, until: 60_000 }, span, "minute", "earlier")).toEqual({ from: 0, until: 60_000 });
  expect(stepped({ from: 60_000, until: 120_000 }, span, "minute", "in")).toEqual({ from: 60_000, until: 120_000 });
  expect(stepped({ from: 0, until: 6 * 60_000 }, span, "minute", "out")).toEqual(WHOLE);
  expect(stepped(WHOLE, span, "minute", "out")).toEqual(WHOLE);
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
