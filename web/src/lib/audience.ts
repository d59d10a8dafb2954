/** An audience as the form has it: conditions about the users of a club (docs/audiences.md). */

import { numberOf, readJson, writeJson } from "masscomm-client";
import { parseRecipients } from "./recipients";

export const FIELDS = [
  "locale",
  "time_zone",
  "attributes",
  "settings.channels",
  "settings.categories",
  "settings.quiet_hours",
  "email",
  "phone",
  "first_name",
  "last_name",
] as const;
export type Field = (typeof FIELDS)[number];

export const OPERATORS = ["is", "isNot", "in", "notIn", "before", "after", "present", "missing"] as const;
export type Operator = (typeof OPERATORS)[number];
export const KINDS = ["text", "number", "yes", "no"] as const;

export interface Condition {
  field: Field;
  /** The name of an attribute, a channel or a category. */
  name: string;
  operator: Operator;
  /** How a value is read: as a text, a number, or as yes or no without a value. */
  kind: (typeof KINDS)[number];
  value: string;
}

export interface AudienceDraft {
  mode: "everyone" | "conditions" | "json" | "saved";
  /** The name of a saved audience. */
  saved: string;
  join: "all" | "any";
  conditions: Condition[];
  /** The object that the users follow, as team:42; empty: any or none. */
  follows: string;
  except: string;
  json: string;
}

export const newCondition = (): Condition => ({ field: "locale", name: "", operator: "is", kind: "text", value: "" });
export const newAudience = (): AudienceDraft => ({ mode: "conditions", saved: "", join: "all", conditions: [newCondition()], follows: "", except: "", json: "" });

/** Return whether an audience has the field for an object. */
export const hasFollows = (mode: AudienceDraft["mode"]): boolean => mode === "everyone" || mode === "conditions";

/** Return whether a field has a name, as `attributes.plan`. */
export const hasName = (field: Field): boolean => ["attributes", "settings.channels", "settings.categories"].includes(field);

/** Return the operators of a field: personal data and quiet hours can only be present or missing. */
export function operatorsOf(field: Field): readonly Operator[] {
  if (["locale", "time_zone", "attributes"].includes(field)) return OPERATORS;
  return hasName(field) ? ["is", "isNot", "present", "missing"] : ["present", "missing"];
}

/** Return how the values of a field may be read with an operator. */
export function kindsOf(field: Field, operator: Operator): readonly Condition["kind"][] {
  if (field.startsWith("settings.")) return ["yes", "no"];
  if (field !== "attributes") return ["text"];
  if (operator === "in" || operator === "notIn") return ["text", "number"];
  return operator === "is" || operator === "isNot" ? KINDS : ["text", "number"];
}

/** Make a condition's operator and kind fit its field. */
export function fit(condition: Condition): void {
  const operators = operatorsOf(condition.field);
  if (!operators.includes(condition.operator)) condition.operator = operators[0]!;
  const kinds = kindsOf(condition.field, condition.operator);
  if (!kinds.includes(condition.kind)) condition.kind = kinds[0]!;
}

export const needsValue = (condition: Condition): boolean =>
  !["present", "missing"].includes(condition.operator) && !["yes", "no"].includes(condition.kind);

const valuesOf = (text: string): string[] => text.split(/[,\n]/).map((each) => each.trim()).filter(Boolean);

/** Return the key of a message for what is missing or wrong in a condition; null if nothing is. */
export function errorOf(condition: Condition): string | null {
  if (hasName(condition.field) && !condition.name.trim()) return "audience.nameMissing";
  if (!needsValue(condition)) return null;
  const list = ["in", "notIn"].includes(condition.operator);
  const values = list ? valuesOf(condition.value) : [condition.value.trim()].filter(Boolean);
  if (values.length === 0) return "audience.valueMissing";
  return condition.kind === "number" && values.some((each) => !Number.isFinite(Number(each))) ? "audience.noNumber" : null;
}

/** Return the key of a message for what is missing or wrong in an audience; null if nothing is. */
export function audienceError(draft: AudienceDraft): string | null {
  const except = parseRecipients(draft.except);
  if (except.invalid.length || except.ids.length > 10_000) return "audience.exceptInvalid";
  if (draft.mode === "json") {
    try {
      const parsed = readJson(draft.json);
      return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? null : "audience.noJson";
    } catch {
      return "audience.noJson";
    }
  }
  if (hasFollows(draft.mode) && draft.follows.trim() && !/^[\w.-]{1,64}:[!-~]{1,128}$/.test(draft.follows.trim())) return "audience.followsInvalid";
  if (draft.mode === "everyone") return null;
  if (draft.mode === "saved") return draft.saved ? null : "audience.savedMissing";
  if (draft.conditions.length === 0) return "audience.noCondition";
  return draft.conditions.map(errorOf).find((each) => each !== null) ?? null;
}

function whereOf(condition: Condition): object {
  const field = hasName(condition.field) ? `${condition.field}.${condition.name.trim()}` : condition.field;
  const typed = (text: string): string | number | bigint => (condition.kind === "number" ? numberOf(text) : text);
  const one = ["yes", "no"].includes(condition.kind) ? condition.kind === "yes" : typed(condition.value.trim());
  switch (condition.operator) {
    case "present":
    case "missing":
      return { field, exists: condition.operator === "present" };
    case "is":
      return { field, is: one };
    case "isNot":
      return { not: { field, is: one } };
    case "in":
      return { field, in: valuesOf(condition.value).map(typed) };
    case "notIn":
      return { not: { field, in: valuesOf(condition.value).map(typed) } };
    default:
      return { field, [condition.operator]: one };
  }
}

/** Return the draft of a saved audience, as JSON: the form cannot show each condition. */
export const draftOf = (definition: { [name: string]: unknown }): AudienceDraft =>
  definition.all_users === true ? { ...newAudience(), mode: "everyone" } : { ...newAudience(), mode: "json", json: writeJson(definition) };

/** Return the conditions of a draft without errors, to be saved: the exceptions are those of one send. */
export function definitionOf(draft: AudienceDraft): { [name: string]: unknown } {
  const { except_users: _except, ...definition } = audienceOf(draft);
  return definition;
}

/** Return the audience of a draft without errors, as a request has it. */
export function audienceOf(draft: AudienceDraft): { [name: string]: unknown } {
  if (draft.mode === "json") return readJson(draft.json) as { [name: string]: unknown };
  const except = parseRecipients(draft.except).ids;
  const others = except.length ? { except_users: except } : {};
  const follows = draft.follows.trim();
  if (draft.mode === "everyone") return { ...(follows ? { follows } : { all_users: true }), ...others };
  if (draft.mode === "saved") return { saved: draft.saved, ...others };
  const conditions = draft.conditions.map(whereOf);
  return { ...(follows ? { follows } : {}), where: conditions.length === 1 ? conditions[0] : { [draft.join]: conditions }, ...others };
}
