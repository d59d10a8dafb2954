import { expect, test } from "vitest";
import { bodyOf, nextPause, Problem, queryText, Unreachable } from "./http";

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

test("an id of 64 bits is exact in an answer and in a query", async () => {
  const { user_id } = await bodyOf<{ user_id: bigint }>(new Response('{"user_id":9007199254740993}'));
  expect(user_id).toBe(9007199254740993n);
  expect(queryText({ user_id })).toBe("?user_id=9007199254740993");
});

test("an answer that is no JSON is that of an unreachable API", async () => {
  await expect(bodyOf(new Response("<html>"))).rejects.toThrow(Unreachable);
});
