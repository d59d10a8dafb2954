import { expect, test } from "vitest";
import { rulesIn, textOf } from "./tenantRules";

test("rules are one a line", () => {
  const rules = { channels: { push: false }, categories: { news: true, offers: { email: false, push: true }, "a.b": false } };
  expect(textOf(rules)).toBe("push=off\nnews=on\noffers.email=off\noffers.push=on\na.b=off");
  expect(rulesIn(textOf(rules))).toEqual(rules);
  expect(rulesIn(" push = off \n\n")).toEqual({ channels: { push: false }, categories: {} });
  expect(textOf({ channels: {}, categories: {} })).toBe("");
});

test.each(["push", "push=no", "=on", "push=on\npush=off", "news=on\nnews.push=off", "news.push=off\nnews=on", "news.push=on\nnews.push=on"])(
  "a line that is no rule, or contradicts one, is named: %j",
  (text) => {
    expect(rulesIn(text)).toEqual({ line: text.split("\n").at(-1) });
  },
);
