import { expect, test } from "vitest";
import { actionsOf, newPush, pushError, pushOf, type PushDraft } from "./push";

test("an empty form has no field", () => {
  expect(pushOf(newPush())).toBeUndefined();
  expect(pushError(newPush())).toBeNull();
});

const FULL: PushDraft = {
  silent: false,
  image: " https://club.example/goal.jpg ",
  badge: "3",
  sound: "default",
  channel: "matches",
  level: "time_sensitive",
  actions: "watch: Watch | riverside://matches/7\n\nlater: Remind me: later",
  data: "match: 7\nurl: https://club.example",
};

test("each entry is a member of the field", () => {
  expect(pushOf(FULL)).toEqual({
    image: "https://club.example/goal.jpg",
    badge: 3,
    sound: "default",
    android_channel: "matches",
    interruption_level: "time_sensitive",
    actions: [
      { id: "watch", title: "Watch", url: "riverside://matches/7" },
      { id: "later", title: "Remind me: later" },
    ],
    data: { match: "7", url: "https://club.example" },
  });
});

test("a silent push has its data only", () => {
  const silent = { ...FULL, silent: true, badge: "x" };
  expect(pushError(silent)).toBeNull();
  expect(pushOf(silent)).toEqual({ silent: true, data: { match: "7", url: "https://club.example" } });
});

test.each<[Partial<PushDraft>, ReturnType<typeof pushError>]>([
  [{ badge: "0" }, null],
  [{ badge: "-1" }, "noBadge"],
  [{ badge: "1.5" }, "noBadge"],
  [{ actions: "Watch" }, "noAction"],
  [{ actions: "watch: " }, "noAction"],
  [{ actions: "watch: Watch | a b" }, "noAction"],
])("the entry %j has the error %s", (changes, expected) => {
  expect(pushError({ ...newPush(), ...changes })).toBe(expected);
});

test("no line is no button", () => {
  expect(actionsOf(" \n")).toEqual([]);
});
