import { expect, test } from "vitest";
import type { Category, Template } from "../api/types";
import { categoryOf, dataOf, filled, groupsOf, localesOf, namesOf, usedOf } from "./templates";

const template = (type: string, channel: string, locale: string, variables: string[] = []): Template => ({
  id: 1, club_id: 1, type, channel, locale, title: "", variables, problem: null, problem_text: null,
});
const TEMPLATES = [
  template("goal", "push", "de-CH", ["data.team", "user.first_name"]),
  template("goal", "push", "en", ["data.team"]),
  template("goal", "email", "de", ["data.minute", "data.team"]),
  template("farewell", "push", "en"),
];

test("each template is offered once", () => {
  expect(namesOf(TEMPLATES)).toEqual(["farewell", "goal"]);
});

test("the data of the templates on the send's channels is asked for", () => {
  expect(dataOf(usedOf(TEMPLATES, "goal", ["push"]))).toEqual(["team"]);
  expect(dataOf(usedOf(TEMPLATES, "goal", ["push", "email"]))).toEqual(["minute", "team"]);
  expect(dataOf(usedOf(TEMPLATES, "unknown", ["push"]))).toEqual([]);
});

test("values are kept, and empty values of another template are not", () => {
  const entries = [{ name: "team", value: "Reds" }, { name: "venue", value: "" }, { name: "note", value: "x" }];
  expect(filled(entries, ["minute", "team"])).toEqual([
    { name: "minute", value: "" }, { name: "team", value: "Reds" }, { name: "note", value: "x" },
  ]);
});

test("each language with a template has a preview, and one stands for all others", () => {
  expect(localesOf(usedOf(TEMPLATES, "goal", ["push", "email"]))).toEqual(["de", "de-CH", "en"]);
  expect(localesOf([template("goal", "push", "de_CH"), template("goal", "email", "de-ch")])).toEqual(["de-ch", "en"]);
  expect(localesOf(usedOf(TEMPLATES, "farewell", ["push"]))).toEqual([]);
  expect(localesOf([])).toEqual([]);
});

test("a category has the channels of the club, else its own, else those of every category", () => {
  const row = (type: string, channels: string[], clubs: Category["clubs"] = []): Category => ({ type, channels, mandatory: false, critical: false, opt_in: [], caps: null, digest: null, shorten: false, clubs, titles: {}, descriptions: {}, valid_from: null, retired: false });
  const rows = [row("default", ["push"]), row("news", ["email"], [{ club_id: 7, channels: ["push", "email"], opt_in: ["email"], caps: null, digest: null }])];
  expect(categoryOf(rows, "news", 1)?.channels).toEqual(["email"]);
  expect(categoryOf(rows, "news", 7)).toMatchObject({ channels: ["push", "email"], opt_in: ["email"] });
  expect(categoryOf(rows, "other", 7)?.channels).toEqual(["push"]);
  expect(categoryOf([], "other", 7)).toBeNull();
});

const kindsOf = (templates: Template[], name: string): string[] => groupsOf(templates).find((each) => each.name === name)!.problems.map((each) => `${each.channel} ${each.kind}`);

test("templates are grouped by name with channels and languages", () => {
  expect(groupsOf(TEMPLATES).map(({ name, channels, locales }) => [name, channels, locales])).toEqual([
    ["farewell", ["push"], ["en"]],
    ["goal", ["email", "push"], ["de", "de-CH", "en"]],
  ]);
});

test("a language of other templates that is missing is a problem, and one of another region is not missing", () => {
  expect(groupsOf(TEMPLATES)[0]!.problems).toEqual([{ kind: "translation", channel: "push", languages: ["de"] }]);
  expect(kindsOf(TEMPLATES, "goal")).not.toContain("push translation");
});

test("templates without the last language reach no user of another language", () => {
  expect(kindsOf(TEMPLATES, "goal")).toEqual(["email fallback"]);
});

test("data that one language does not read is a problem of that language", () => {
  const templates = [template("goal", "push", "en", ["data.team", "data.minute"]), template("goal", "push", "de", ["data.team", "user.first_name"])];
  expect(groupsOf(templates)[0]!.problems).toEqual([{ kind: "variable", channel: "push", template: templates[1], names: ["minute"] }]);
});

test("a template that cannot be rendered has this problem only", () => {
  const unusable = { ...template("goal", "push", "en"), problem: "unexpected end" };
  expect(kindsOf([unusable, template("goal", "push", "de", ["data.team"])], "goal")).toEqual(["push unusable"]);
});
