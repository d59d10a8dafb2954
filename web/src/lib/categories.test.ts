import { expect, test } from "vitest";
import type { Category, CategoryValues } from "../api/types";
import { capsOf, digestIn, draftOf, fieldsOf, isAhead, isComplete, linesOf, newCategory, offeredOf, textOf, type CategoryDraft } from "./categories";

const VERSION: CategoryValues = {
  valid_from: "2026-11-24T12:01:00Z",
  channels: ["push"],
  mandatory: false,
  critical: false,
  opt_in: ["email"],
  caps: [{ limit: 3, window: "24h", by_channel: true, group: null }],
  digest: { template: "news_digest", window: "1h", key: "team", list: 10 },
  shorten: true,
  titles: { en: "News: today", de: "Neues" },
  descriptions: { en: "What happens" },
  retired: false,
  clubs: [
    { club_id: 7, channels: ["push", "email"], opt_in: ["email"], caps: [{ limit: 3, window: "24h", by_channel: true, group: null }], digest: { template: "news_digest", window: "1h", key: "team", list: 10 } },
    { club_id: 9_007_199_254_740_993n, channels: ["push"], opt_in: [], caps: [], digest: null },
  ],
};

const read = (): CategoryDraft => draftOf({ type: "news", versions: [VERSION], etag: '"a1"' });

test("a draft that nothing changes is the version, and a club has what differs", () => {
  const { channels, mandatory, critical, opt_in, caps, digest, shorten, titles, descriptions, retired } = VERSION;
  const clubs = [
    { club_id: 7, channels: ["push", "email"] },
    { club_id: 9_007_199_254_740_993n, opt_in: [], caps: [], digest: null },
  ];
  expect(fieldsOf(read())).toEqual({ channels, mandatory, critical, opt_in, caps, digest, shorten, titles, descriptions, retired, clubs });
});

test("a club that is as the category follows its later changes", () => {
  const draft = read();
  draft.channels = ["email"];
  expect(fieldsOf(draft).clubs?.[1]).toEqual({ club_id: 9_007_199_254_740_993n, opt_in: [], caps: [], digest: null });
});

test("a mandatory category needs no opt-in, and has no caps and no digest", () => {
  const fields = fieldsOf({ ...read(), mandatory: true });
  expect([fields.opt_in, fields.caps, fields.digest, fields.clubs]).toEqual([[], undefined, undefined, [{ club_id: 7, channels: ["push", "email"] }, { club_id: 9_007_199_254_740_993n }]]);
});

test("a critical category has no caps and no digest", () => {
  const fields = fieldsOf({ ...read(), critical: true });
  expect([fields.critical, fields.opt_in, fields.caps, fields.digest, fields.clubs?.[0]]).toEqual([true, ["email"], undefined, undefined, { club_id: 7, channels: ["push", "email"] }]);
});

const complete: CategoryDraft = { ...newCategory(), name: "news", channels: ["push"] };
test.each<[Partial<CategoryDraft>, boolean]>([
  [{}, true],
  [{ name: " " }, false],
  [{ channels: [] }, false],
  [{ caps: "3/24h\n 1/day,by_channel,group=ads " }, true],
  [{ caps: "3 a day" }, false],
  [{ digest: "daily/08:00" }, true],
  [{ digest: "daily" }, false],
  [{ clubs: [{ club: "7", channels: null, optIn: null, caps: "none", digest: "" }] }, true],
  [{ clubs: [{ club: "7", channels: null, optIn: null, caps: "3", digest: "" }] }, false],
  [{ clubs: [{ club: "7", channels: null, optIn: null, caps: "", digest: "daily/08:00" }] }, true],
  [{ clubs: [{ club: "7", channels: null, optIn: null, caps: "", digest: "daily" }] }, false],
  [{ clubs: [{ club: "7", channels: [], optIn: null, caps: "", digest: "" }] }, false],
  [{ clubs: [{ club: "seven", channels: null, optIn: null, caps: "", digest: "" }] }, false],
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

test.each<[string, ReturnType<typeof capsOf>]>([
  ["", null],
  [" \n", null],
  ["none", []],
  ["3/24h", [{ limit: 3, window: "24h", by_channel: false, group: null }]],
  ["1/day,by_channel\n5/7d,group=ads", [{ limit: 1, window: "day", by_channel: true, group: null }, { limit: 5, window: "7d", by_channel: false, group: "ads" }]],
  ["none\n3/24h", undefined],
  ["3/24h,group=ads,by_channel", undefined],
])("the lines %j are the caps %j", (lines, caps) => {
  expect(capsOf(lines)).toEqual(caps);
  if (caps !== undefined) expect(linesOf(caps)).toBe(lines.trim());
});

test.each<[string, ReturnType<typeof digestIn>]>([
  ["", null],
  ["news_digest/1h", { template: "news_digest", window: "1h" }],
  ["daily/08:00,key=team,list=20", { template: "daily", at: "08:00", key: "team", list: 20 }],
  ["/1h", undefined],
  ["daily/1h,list=many", undefined],
])("the text %j is the digest %j", (text, digest) => {
  expect(digestIn(text)).toEqual(digest);
  if (digest !== undefined) expect(textOf(digest)).toBe(text);
});
