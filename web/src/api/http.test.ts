import { expect, test } from "vitest";
import { nextPause, Problem, queryText } from "./http";

test("pauses double up to their limit", () => {
  expect([0, 1_000, 16_000, 30_000].map((last) => nextPause(last, new Error()))).toEqual([1_000, 2_000, 30_000, 30_000]);
});

test("the server's Retry-After is respected", () => {
  expect(nextPause(1_000, new Problem(429, "busy", [], 5))).toBe(5_000);
});

test("empty values are left out of a query, lists are repeated", () => {
  expect(queryText({ a: "", b: null, c: [1, 2], d: "x y" })).toBe("?c=1&c=2&d=x+y");
  expect(queryText({})).toBe("");
});
