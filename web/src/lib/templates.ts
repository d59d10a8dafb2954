/** The templates from which the messages of a send are rendered (docs/templates.md, "Which template"). */

import type { Category, Template } from "../api/types";
import type { Id } from "masscomm-client";

/** The language of a user whose own has no template. */
const LAST_LOCALE = "en";
const DATA = "data.";

export interface Entry {
  name: string;
  value: string;
}

/** Return the names that a send can give as its template, in order. */
export const namesOf = (templates: Template[]): string[] => [...new Set(templates.map((each) => each.type))].sort();

/** Return the category as it is for a club; a category without a row has the channels of the row `default`. */
export function categoryOf(categories: Category[], type: string, clubId: Id | null): Pick<Category, "channels" | "mandatory" | "opt_in"> | null {
  const row = categories.find((each) => each.type === type) ?? categories.find((each) => each.type === "default");
  if (!row) return null;
  return { ...row, ...row.clubs.find((each) => each.club_id === clubId) };
}

/** Return the templates of a name on the channels of a send. */
export const usedOf = (templates: Template[], name: string, channels: readonly string[]): Template[] =>
  templates.filter((each) => each.type === name && channels.includes(each.channel));

/** Return the names of the data that templates read. */
export function dataOf(templates: Template[]): string[] {
  const read = templates.flatMap((each) => each.variables).filter((variable) => variable.startsWith(DATA));
  return [...new Set(read.map((variable) => variable.slice(DATA.length)))].sort();
}

/** Return the entries for the data of a template: its names with the values so far, then other names that have a value. */
export function filled(entries: Entry[], names: string[]): Entry[] {
  const values = new Map(entries.map((each) => [each.name, each.value]));
  const others = entries.filter((each) => each.value && !names.includes(each.name));
  return [...names.map((name) => ({ name, value: values.get(name) ?? "" })), ...others];
}

/**
 * Return the languages that get different messages: each that has a template, and last the one that stands for all others;
 * none if all users get the same message.
 */
export function localesOf(templates: Template[]): string[] {
  const own = new Map(templates.map((each) => [each.locale.replaceAll("_", "-").toLowerCase(), each.locale.replaceAll("_", "-")]));
  own.delete(LAST_LOCALE);
  return own.size === 0 ? [] : [...[...own.values()].sort(), LAST_LOCALE];
}

/** A fault of the templates of one name on a channel. */
export type TemplateProblem =
  | { kind: "unusable"; channel: string; template: Template }
  /** Users of no language of the templates get no message. */
  | { kind: "fallback"; channel: string }
  /** Languages of other templates in which there is none. */
  | { kind: "translation"; channel: string; languages: string[] }
  /** Data that only the templates of other languages read. */
  | { kind: "variable"; channel: string; template: Template; names: string[] };

/** The templates of one name. */
export interface TemplateGroup {
  name: string;
  templates: Template[];
  channels: string[];
  locales: string[];
  problems: TemplateProblem[];
}

const languageOf = (template: Template): string => template.locale.split(/[-_]/)[0]!.toLowerCase();
const sortKey = (template: Template): string => `${template.channel} ${template.locale}`;
const unique = (values: string[]): string[] => [...new Set(values)].sort();

/** Return the templates by name, with their faults. A template of any region is one of its language. */
export function groupsOf(templates: Template[]): TemplateGroup[] {
  const languages = unique(templates.map(languageOf));
  return namesOf(templates).map((name) => {
    const own = templates.filter((each) => each.type === name).sort((a, b) => sortKey(a).localeCompare(sortKey(b)));
    const channels = unique(own.map((each) => each.channel));
    const problems = channels.flatMap((channel) => problemsOf(channel, own.filter((each) => each.channel === channel), languages));
    return { name, templates: own, channels, locales: unique(own.map((each) => each.locale.replaceAll("_", "-"))), problems };
  });
}

function problemsOf(channel: string, templates: Template[], languages: string[]): TemplateProblem[] {
  const problems: TemplateProblem[] = templates.filter((each) => each.problem).map((template) => ({ kind: "unusable", channel, template }));
  const covered = new Set(templates.map(languageOf));
  if (!covered.has(LAST_LOCALE)) problems.push({ kind: "fallback", channel });
  const missing = languages.filter((each) => each !== LAST_LOCALE && !covered.has(each));
  if (missing.length) problems.push({ kind: "translation", channel, languages: missing });
  const usable = templates.filter((each) => !each.problem);
  const read = dataOf(usable);
  for (const template of usable) {
    const names = read.filter((each) => !template.variables.includes(DATA + each));
    if (names.length) problems.push({ kind: "variable", channel, template, names });
  }
  return problems;
}
