import { expect, test } from "vitest";
import { MAX_RECIPIENTS, parseRecipients } from "./recipients";

test("ids, ranges and any separators", () => {
  expect(parseRecipients("42, 7;9\n1-3").ids).toEqual([42, 7, 9, 1, 2, 3]);
});

test("a repeated id is counted once and reported", () => {
  expect(parseRecipients("1-3 2 2")).toMatchObject({ ids: [1, 2, 3], duplicates: 2 });
});

test("what is no id is named", () => {
  expect(parseRecipients("1 two 0 -5 9-3 1.5").invalid).toEqual(["two", "0", "-5", "9-3", "1.5"]);
});

test("ids of 64 bits are exact, even in ranges", () => {
  expect(parseRecipients("9007199254740992-9007199254740993 9007199254740993").ids).toEqual([9007199254740992n, 9007199254740993n]);
  expect(parseRecipients("9223372036854775807").ids).toEqual([2n ** 63n - 1n]);
  expect(parseRecipients("9223372036854775808").invalid).toEqual(["9223372036854775808"]);
});

test("a huge range stops at the limit", () => {
  const found = parseRecipients("1-9223372036854775807");
  expect(found.ids).toHaveLength(MAX_RECIPIENTS);
  expect(found.tooMany).toBe(true);
});

test("exactly the limit is accepted", () => {
  expect(parseRecipients(`1-${MAX_RECIPIENTS}`).tooMany).toBe(false);
});
