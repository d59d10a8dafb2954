import { expect, test } from "vitest";
import { idOf, idsBetween, idsOf, LARGEST_ID } from "./ids";

const EXACT = 9007199254740993n;

test.each([
  ["42", 42],
  [" 42 ", 42],
  ["9007199254740993", EXACT],
  ["9223372036854775807", LARGEST_ID],
  ["9223372036854775808", null],
  ["0", null],
  ["-1", null],
  ["1e3", null],
  ["", null],
  ["seven", null],
])("the id in %j is %s", (text, id) => {
  expect(idOf(text)).toBe(id);
});

test.each([
  ["", []],
  ["7, 8,", [7, 8]],
  ["7, 9007199254740993", [7, EXACT]],
  ["seven", null],
  ["7;8", null],
  ["0", null],
  ["99999999999999999999", null],
])("%j names the ids %s", (text, ids) => {
  expect(idsOf(text)).toEqual(ids);
});

test("a range over the largest exact number has each id once", () => {
  expect([...idsBetween(9007199254740990, EXACT)]).toEqual([9007199254740990, 9007199254740991, 9007199254740992n, EXACT]);
});
