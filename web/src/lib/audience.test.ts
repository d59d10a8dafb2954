import { expect, test } from "vitest";
import { audienceError, audienceOf, definitionOf, draftOf, fit, newAudience, newCondition, operatorsOf, type AudienceDraft, type Condition } from "./audience";

const condition = (changes: Partial<Condition>): Condition => ({ ...newCondition(), value: "de", ...changes });
const draft = (conditions: Condition[], changes: Partial<AudienceDraft> = {}): AudienceDraft => ({ ...newAudience(), conditions, ...changes });

test.each<[Partial<Condition>, object]>([
  [{}, { field: "locale", is: "de" }],
  [{ operator: "isNot" }, { not: { field: "locale", is: "de" } }],
  [{ operator: "in", value: "de, de-AT" }, { field: "locale", in: ["de", "de-AT"] }],
  [{ operator: "notIn", value: "de\nen" }, { not: { field: "locale", in: ["de", "en"] } }],
  [{ field: "attributes", name: "plan", value: "42" }, { field: "attributes.plan", is: "42" }],
  [{ field: "attributes", name: "age", kind: "number", operator: "after", value: "18" }, { field: "attributes.age", after: 18 }],
  [{ field: "attributes", name: "account", kind: "number", value: "9007199254740993" }, { field: "attributes.account", is: 9007199254740993n }],
  [{ field: "attributes", name: "joined", operator: "before", value: "2026-01-01" }, { field: "attributes.joined", before: "2026-01-01" }],
  [{ field: "attributes", name: "vip", kind: "yes" }, { field: "attributes.vip", is: true }],
  [{ field: "settings.categories", name: "news", kind: "no", operator: "isNot" }, { not: { field: "settings.categories.news", is: false } }],
  [{ field: "email", operator: "present" }, { field: "email", exists: true }],
  [{ field: "settings.quiet_hours", operator: "missing" }, { field: "settings.quiet_hours", exists: false }],
])("a condition becomes its form in the API: %s", (changes, expected) => {
  expect(audienceOf(draft([condition(changes)]))).toEqual({ where: expected });
});

test("several conditions are joined, and users are excepted", () => {
  const two = [condition({}), condition({ field: "email", operator: "present" })];
  expect(audienceOf(draft(two, { join: "any", except: "42 7-8" }))).toEqual({
    where: { any: [{ field: "locale", is: "de" }, { field: "email", exists: true }] },
    except_users: [42, 7, 8],
  });
  expect(audienceOf(draft([], { mode: "everyone" }))).toEqual({ all_users: true });
  expect(audienceOf(draft([], { mode: "json", json: '{"where": {"not": {"field": "locale", "is": "de"}}}' }))).toEqual({
    where: { not: { field: "locale", is: "de" } },
  });
});

test.each<[AudienceDraft, string]>([
  [draft([]), "audience.noCondition"],
  [draft([condition({ value: " " })]), "audience.valueMissing"],
  [draft([condition({ field: "attributes" })]), "audience.nameMissing"],
  [draft([condition({ field: "attributes", name: "age", kind: "number" })]), "audience.noNumber"],
  [draft([condition({})], { except: "x" }), "audience.exceptInvalid"],
  [draft([], { mode: "json", json: "[]" }), "audience.noJson"],
  [draft([], { mode: "json", json: "{" }), "audience.noJson"],
])("what is missing is named: %#", (made, error) => {
  expect(audienceError(made)).toBe(error);
});

test("users may have to follow an object", () => {
  const conditions = [condition({})];
  expect(audienceOf(draft(conditions, { follows: " team:42 " }))).toEqual({ follows: "team:42", where: { field: "locale", is: "de" } });
  expect(audienceOf(draft([], { mode: "everyone", follows: "team:42", except: "7" }))).toEqual({ follows: "team:42", except_users: [7] });
  for (const follows of ["team", "team:", ":42", "team:4 2"]) expect(audienceError(draft(conditions, { follows }))).toBe("audience.followsInvalid");
  expect(audienceError(draft(conditions, { follows: "team:42" }))).toBeNull();
});

test("personal data can only be present or missing", () => {
  expect(operatorsOf("email")).toEqual(["present", "missing"]);
  const made = condition({ field: "email", operator: "is" });
  fit(made);
  expect([made.operator, audienceError(draft([made]))]).toEqual(["present", null]);
});

test("a saved audience is named, with the exceptions of the send", () => {
  const draft = { ...newAudience(), mode: "saved" as const, except: "42" };
  expect(audienceError(draft)).toBe("audience.savedMissing");
  expect(audienceError({ ...draft, saved: "germans" })).toBeNull();
  expect(audienceOf({ ...draft, saved: "germans" })).toEqual({ saved: "germans", except_users: [42] });
});

test("conditions are saved without the exceptions of a send", () => {
  expect(definitionOf({ ...newAudience(), mode: "everyone", except: "42" })).toEqual({ all_users: true });
});

test.each([{ all_users: true }, { where: { field: "attributes.account", is: 9007199254740993n } }])("the draft of a saved audience is the same audience: %#", (definition) => {
  expect(definitionOf(draftOf(definition))).toEqual(definition);
});
