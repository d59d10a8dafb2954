import { expect, test } from "vitest";
import { instantOf, localOf, timeError } from "./zones";

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

test("an instant as the local time of a zone", () => {
  expect(localOf("2026-11-24T08:30:00Z", "Europe/Madrid")).toBe("2026-11-24T09:30");
  expect(localOf("2026-07-01T09:30:00+02:00", "Asia/Kolkata")).toBe("2026-07-01T13:00");
  expect(localOf("2026-12-31T23:30:00Z", "Pacific/Auckland")).toBe("2027-01-01T12:30");
});

test("a time for which no send can wait has a message", () => {
  const nowMs = Date.parse("2026-03-28T12:00:00Z");
  expect(timeError("", "Europe/Madrid", nowMs)).toBe("compose.required");
  expect(timeError("2026-03-29T02:30", "Europe/Madrid", nowMs)).toBe("compose.gap");
  expect(timeError("2026-03-28T13:00", "Europe/Madrid", nowMs)).toBe("compose.past");
  expect(timeError("2026-03-28T13:01", "Europe/Madrid", nowMs)).toBeUndefined();
});
