/** Subscriptions to events, and rules that make notifications of them, as a form has them. */
import { readJson, type Id } from "masscomm-client";
import type { NotificationFields, SubscriptionFields } from "../api/types";
import { pairsOf } from "./webhooks";

/** How a rule names its recipients, as the API names the fields. */
export const RECIPIENTS = ["users_path", "unit_attribute", "audience"] as const;
export type RecipientKind = (typeof RECIPIENTS)[number];

export interface RuleDraft {
  category: string;
  recipients: RecipientKind;
  /** A path, the name of an attribute, or the JSON text of an audience. */
  value: string;
  /** Lines such as `goals: score.goals`. */
  variables: string;
}

export interface SubscriptionDraft {
  types: string;
  units: string;
  fields: string;
  /** The JSON text of a filter; empty: every event. */
  filter: string;
}

/** Return the words of a text with commas or spaces between them. */
export const wordsOf = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** Return the JSON object that a text is; null if it is none. */
export function objectOf(text: string): Record<string, unknown> | null {
  try {
    const found = readJson(text);
    return typeof found === "object" && found !== null && !Array.isArray(found) ? (found as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** Return whether each text of a form that must be JSON is an object. */
export function isReadable({ filter }: SubscriptionDraft, rule: RuleDraft | null): boolean {
  return (!filter.trim() || objectOf(filter) !== null) && (rule?.recipients !== "audience" || objectOf(rule.value) !== null);
}

function notificationOf({ category, recipients, value, variables }: RuleDraft): NotificationFields {
  const data = pairsOf(variables);
  return { type: category, [recipients]: recipients === "audience" ? objectOf(value) : value.trim(), ...(Object.keys(data).length && { data }) };
}

/** Return the body of a request for a new subscription of an endpoint, or for a new rule, to the events of a club. */
export function subscriptionOf(draft: SubscriptionDraft, club: Id, to: { endpoint_id: string } | RuleDraft): SubscriptionFields {
  const [units, fields] = [wordsOf(draft.units), wordsOf(draft.fields)];
  const filter = objectOf(draft.filter) as SubscriptionFields["filter"] | null;
  return {
    types: wordsOf(draft.types),
    club_ids: [club],
    ...(units.length && { units }),
    ...(filter && { filter }),
    ...("endpoint_id" in to ? { endpoint_id: to.endpoint_id, ...(fields.length && { fields }) } : { notification: notificationOf(to) }),
  };
}
