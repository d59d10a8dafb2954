import { expect, test } from "vitest";
import { newRepeat, repeatErrors, ruleIn, ruleOf, timesOf } from "./repeat";

const weekly = { ...newRepeat(), name: "weekly" };

test.each([
  [{ frequency: "DAILY", days: ["MO"], rule: "" }, "FREQ=DAILY"],
  [{ frequency: "WEEKLY", days: [], rule: "" }, "FREQ=WEEKLY"],
  [{ frequency: "WEEKLY", days: ["FR", "MO"], rule: "" }, "FREQ=WEEKLY;BYDAY=MO,FR"],
  [{ frequency: "MONTHLY", days: [], rule: "" }, "FREQ=MONTHLY"],
  [{ frequency: "rule", days: [], rule: " FREQ=YEARLY " }, "FREQ=YEARLY"],
] as const)("%j is the rule %s", (fields, rule) => {
  expect(ruleOf({ ...fields, days: [...fields.days] })).toBe(rule);
});

test.each(["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,FR", "FREQ=MONTHLY", "FREQ=MONTHLY;BYDAY=MO", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9", "FREQ=HOURLY"])(
  "the fields of %s are those of the same rule",
  (rule) => {
    expect(ruleOf(ruleIn(rule))).toBe(rule);
  },
);

test.each([
  [{ name: "a b" }, { schedule: "repeat.noName" }],
  [{ frequency: "rule" as const }, { rule: "compose.required" }],
  [{ expiresAfter: "0" }, { expires_after_minutes: "repeat.noMinutes" }],
  [{ expiresAfter: "10081" }, { expires_after_minutes: "repeat.noMinutes" }],
  [{ expiresAfter: "10080" }, {}],
])("%j has the errors %j", (changes, errors) => {
  expect(repeatErrors({ ...weekly, ...changes })).toEqual(errors);
});

test("minutes that are not entered are left out", () => {
  expect(timesOf(weekly, "2026-12-07T09:00", "UTC")).toEqual({ rule: "FREQ=WEEKLY", time_zone: "UTC", starts_at_local: "2026-12-07T09:00", catch_up: "none" });
  expect(timesOf({ ...weekly, expiresAfter: "60" }, "2026-12-07T09:00", "UTC")).toMatchObject({ expires_after_minutes: 60 });
});
