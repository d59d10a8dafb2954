import { expect, test } from "vitest";
import type { Category, CategoryValues } from "../api/types";
import { draftOf, fieldsOf, isAhead, isComplete, newCategory, offeredOf, type CategoryDraft } from "./categories";

const VERSION: CategoryValues = {
  valid_from: "2026-11-24T12:01:00Z",
  channels: ["push"],
  mandatory: false,
  opt_in: ["email"],
  titles: { en: "News: today", de: "Neues" },
  retired: false,
  clubs: [
    { club_id: 7, channels: ["push", "email"], opt_in: ["email"] },
    { club_id: 9_007_199_254_740_993n, channels: ["push"], opt_in: [] },
  ],
};

test("a draft that nothing changes is the version, and a club has what differs", () => {
  const { channels, mandatory, opt_in, titles, retired } = VERSION;
  const clubs = [
    { club_id: 7, channels: ["push", "email"] },
    { club_id: 9_007_199_254_740_993n, opt_in: [] },
  ];
  expect(fieldsOf(draftOf("news", VERSION))).toEqual({ channels, mandatory, opt_in, titles, retired, clubs });
});

test("a club that is as the category follows its later changes", () => {
  const draft = draftOf("news", VERSION);
  draft.channels = ["email"];
  expect(fieldsOf(draft).clubs?.[1]).toEqual({ club_id: 9_007_199_254_740_993n, opt_in: [] });
});

test("a mandatory category needs no opt-in", () => {
  const fields = fieldsOf({ ...draftOf("news", VERSION), mandatory: true });
  expect([fields.opt_in, fields.clubs]).toEqual([[], [{ club_id: 7, channels: ["push", "email"] }, { club_id: 9_007_199_254_740_993n }]]);
});

const complete: CategoryDraft = { ...newCategory(), name: "news", channels: ["push"] };
test.each<[Partial<CategoryDraft>, boolean]>([
  [{}, true],
  [{ name: " " }, false],
  [{ channels: [] }, false],
  [{ clubs: [{ club: "7", channels: null, optIn: null }] }, true],
  [{ clubs: [{ club: "7", channels: [], optIn: null }] }, false],
  [{ clubs: [{ club: "seven", channels: null, optIn: null }] }, false],
])("the draft with %j is complete: %s", (changed, expected) => {
  expect(isComplete({ ...complete, ...changed })).toBe(expected);
});

test("retired categories and the default are not offered, those that begin later are", () => {
  const row = (type: string, values: Partial<Category> = {}): Category => ({ ...VERSION, type, ...values });
  expect(offeredOf([row("default"), row("news"), row("offers", { retired: true }), row("later", { valid_from: "2999-01-01T00:00:00Z" })])).toEqual(["news", "later"]);
});

test.each([
  ["2026-11-24T12:01:00Z", "2026-11-24T12:00:59Z", true],
  ["2026-11-24T12:01:00Z", "2026-11-24T12:01:00Z", false],
  [null, "2026-11-24T12:01:00Z", false],
])("a version that begins at %s is ahead at %s: %s", (valid_from, now, expected) => {
  expect(isAhead({ valid_from }, Date.parse(now))).toBe(expected);
});
