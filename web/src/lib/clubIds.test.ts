import { expect, test } from "vitest";
import { clubIdsIn } from "./clubIds";

test.each([
  ["", []],
  ["7, 8,", [7, 8]],
  ["seven", null],
  ["7;8", null],
  ["-1", null],
  ["1e3", null],
  ["99999999999999999999", null],
])("%j names the clubs %j", (text, ids) => {
  expect(clubIdsIn(text)).toEqual(ids);
});
