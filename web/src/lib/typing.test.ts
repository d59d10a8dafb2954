import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Typing, TYPING_PAUSE_MS } from "./typing";

let passed: string[];
let typing: Typing;

beforeEach(() => {
  vi.useFakeTimers();
  passed = [];
  typing = new Typing((text) => passed.push(text));
});
afterEach(() => {
  vi.useRealTimers();
});

test("a text is passed on once, after a pause", () => {
  for (const text of ["n", "ne", "new", "news"]) {
    typing.type(text);
    vi.advanceTimersByTime(TYPING_PAUSE_MS - 1);
  }
  expect(passed).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(passed).toEqual(["news"]);
});

test("the end of the entry passes a text on at once", () => {
  typing.type("news");
  typing.end();
  vi.advanceTimersByTime(TYPING_PAUSE_MS);
  typing.end();
  expect(passed).toEqual(["news"]);
});

test("a text that was replaced is not passed on", () => {
  typing.type("news");
  typing.stop();
  vi.advanceTimersByTime(TYPING_PAUSE_MS);
  expect(passed).toEqual([]);
});
