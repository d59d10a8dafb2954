import { expect, test } from "vitest";
import { numberOf, readJson, writeJson } from "../src/index.js";

const EXACT = 9007199254740993n;

test("an integer beyond those of a number is read and written exactly", () => {
  const text = '{"ids":[42,9007199254740993,-9223372036854775808],"share":0.1}';
  expect(readJson(text)).toEqual({ ids: [42, EXACT, -(2n ** 63n)], share: 0.1 });
  expect(writeJson(readJson(text))).toBe(text);
});

test("a text without such integers is that of the browser's JSON", () => {
  const value = { text: 'a "b" \u2028 é', left: undefined, list: [1, null, true, 1.5e300], inner: { none: {} } };
  expect(writeJson(value)).toBe(JSON.stringify(value));
  expect(writeJson(value, 1)).toBe(JSON.stringify(value, null, 1));
  expect(readJson(JSON.stringify(value))).toEqual(JSON.parse(JSON.stringify(value)));
});

test.each(["", "{", "[1,]", "undefined"])("%j is no JSON", (text) => {
  expect(() => readJson(text)).toThrow(SyntaxError);
});

test.each([
  ["9007199254740991", 9007199254740991],
  ["9007199254740993", EXACT],
  ["1e3", 1_000],
  ["1.0", 1],
])("the number in %j is %s", (text, number) => {
  expect(numberOf(text)).toBe(number);
});
