import { expect, test } from "vitest";
import { instantOf } from "./zones";

test("a local time in a zone", () => {
  expect(instantOf("2026-11-24T09:30", "Europe/Madrid")).toBe("2026-11-24T08:30:00Z");
  expect(instantOf("2026-07-01T09:30", "Asia/Kolkata")).toBe("2026-07-01T04:00:00Z");
  expect(instantOf("2026-07-01T09:30", "UTC")).toBe("2026-07-01T09:30:00Z");
});

test("a time that the clocks leave out is refused", () => {
  expect(instantOf("2026-03-29T02:30", "Europe/Madrid")).toBeNull();
});

test("a time that occurs twice is the earlier one", () => {
  expect(instantOf("2026-10-25T02:30", "Europe/Madrid")).toBe("2026-10-25T00:30:00Z");
});

test("no time is null", () => {
  expect(instantOf("", "UTC")).toBeNull();
});
