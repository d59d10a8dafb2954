import { afterEach, expect, test, vi } from "vitest";

vi.stubGlobal("localStorage", { getItem: () => "en" });
vi.stubGlobal("document", { documentElement: {}, createElement: () => ({}) });
vi.stubGlobal("navigator", { languages: [] });
const { i18n } = await import("../i18n");
const { apiText, channelName, conditionText, decisionText, reasonText } = await import("./words");

const by = { layer: "user", rule: "category:news channel:email", category: "news", channel: "email", settings_version: 7, changed_at: "2026-05-03T10:22:00Z" };
const row = { status: "suppressed", reason: "opted_out", decision: "The API's sentence.", decided_by: by };

afterEach(() => {
  i18n.global.locale.value = "en";
});

test.each([
  [by, "The user has opted out of news by e-mail (settings of "],
  [{ ...by, channel: null }, "The user has opted out of news (settings of "],
  [{ ...by, category: null }, "The user has opted out of every e-mail (settings of "],
  [{ ...by, changed_at: null }, "The user has opted out of news by e-mail"],
  [{ ...by, category: null, channel: null, changed_at: null }, "The user has opted out of this category or channel"],
  [null, "The user has opted out of this category or channel"],
  [{ ...by, layer: "tenant" }, "The tenant's rules exclude news by e-mail (settings of "],
  [{ ...by, layer: "tenant", channel: null }, "The tenant's rules exclude news (settings of "],
  [{ ...by, layer: "global", category: null }, "The rules for every tenant exclude every e-mail (settings of "],
  [{ ...by, layer: "global", category: null, channel: null, changed_at: null }, "The rules for every tenant exclude this category or channel"],
])("the decision by %j is %s", (decided_by, text) => {
  expect(decisionText({ ...row, decided_by }).startsWith(text)).toBe(true);
});

test("a decision has the day of the settings", () => {
  expect(decisionText(row)).toMatch(/settings of (May 3, 2026|3 May 2026)\)$/);
});

test("a decision is in the chosen language", () => {
  i18n.global.locale.value = "de";
  expect(decisionText(row)).toBe("Abgemeldet von news per E-Mail (Einstellungen vom 3. Mai 2026)");
});

test("values of a later version are shown as they are", () => {
  expect([channelName("pigeon"), reasonText("tired"), reasonText(null)]).toEqual(["pigeon", "tired", ""]);
  expect(decisionText({ ...row, reason: "tired", decided_by: null })).toBe("The API's sentence.");
  expect(decisionText({ ...row, status: "dreaming", reason: null, decided_by: null })).toBe("The API's sentence.");
});

test("a text of the API is in the chosen language, with its values in the person's locale", () => {
  i18n.global.locale.value = "de";
  const estimated = { code: "counts_estimated", parameters: { examined: 10_000, total: 250_000 } };
  expect(apiText(estimated, "the counts are estimated")).toBe("Die Zahlen sind aus 10.000 von 250.000 Empfängern geschätzt.");
  const released = { code: "send_released", parameters: { send_at: "2026-11-21T08:00:00Z" } };
  expect(apiText(released, "The send is released")).toMatch(/: Ihr Zeitpunkt war 2\d\.11\.2026, /);
});

test("a text without a code, or with a later version's, is the API's own", () => {
  expect(apiText({}, "has ended")).toBe("has ended");
  expect(apiText({ code: "of_a_later_version", parameters: {} }, "has ended")).toBe("has ended");
});

test("a text in a text of the API is in the chosen language, too", () => {
  i18n.global.locale.value = "de";
  const form = { code: "form_number", parameters: { lowest: 1, highest: 1_000 } };
  const reason = { code: "must_be", parameters: { form: "a whole number" }, texts: { form } };
  const invalid = { code: "field_invalid", parameters: { field: "limit", reason: "must be a whole number" }, texts: { reason } };
  expect(apiText(invalid, "")).toBe("limit: muss so sein: eine ganze Zahl von 1 bis 1.000");
  expect(apiText({ ...invalid, texts: { reason: { code: "of_a_later_version" } } }, "")).toBe("limit: must be a whole number");
});

test("braces in a value of the API are no placeholders", () => {
  expect(apiText({ code: "field_invalid", parameters: { field: "{reason}", reason: "@:error.title | <b>" } }, "")).toBe("{reason}: @:error.title | <b>");
});

test.each([
  [{ field: "locale", name: "", operator: "is", kind: "text", value: " de " }, "Locale equal to de"],
  [{ field: "attributes", name: "plan", operator: "in", kind: "text", value: "gold, silver" }, "Attribute plan one of gold, silver"],
  [{ field: "settings.channels", name: "email", operator: "is", kind: "no", value: "old" }, "Setting of a channel email equal to No"],
  [{ field: "settings.channels", name: "email", operator: "missing", kind: "yes", value: "" }, "Setting of a channel email missing"],
  [{ field: "email", name: "", operator: "present", kind: "text", value: "" }, "E-mail address present"],
] as const)("the condition %j is read as %s", (condition, text) => {
  expect(conditionText(condition)).toBe(text);
});
