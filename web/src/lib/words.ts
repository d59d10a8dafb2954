/** Channels, reasons, decisions and texts of the API in the chosen language. A value that this build does not know is shown as it is. */
import { i18n } from "../i18n";
import type { CodedBody, Recipient } from "../api/types";
import { hasName, needsValue, type Condition } from "./audience";
import { formatDay, formatNumber, formatTime } from "./format";

const { t, te } = i18n.global;
const known = (key: string, otherwise: string): string => (te(key) ? t(key) : otherwise);

export const channelName = (channel: string): string => known(`compose.${channel}`, channel);
export const reasonText = (reason: string | null): string => (reason ? known(`reason.${reason}`, reason) : "");

/** Return a text of the API in the chosen language; the API's own words if this build does not know its code. */
export function apiText({ code, parameters, texts }: CodedBody, otherwise: string): string {
  return code && te(`problem.${code}`) ? t(`problem.${code}`, localized(parameters ?? {}, texts ?? {})) : otherwise;
}

/** Return a condition of an audience in words. */
export function conditionText(condition: Condition): string {
  const { field, name, operator, kind, value } = condition;
  const words = [t(`audienceField.${field.replace(".", "_")}`), hasName(field) ? name : "", t(`audienceOperator.${operator}`)];
  if (needsValue(condition)) words.push(value.trim());
  else if (operator !== "present" && operator !== "missing") words.push(t(`audienceKind.${kind}`));
  return words.filter(Boolean).join(" ");
}

/** Return the values of a text in the person's language and locale. Those in `texts` are texts of the API themselves. */
function localized(parameters: NonNullable<CodedBody["parameters"]>, texts: NonNullable<CodedBody["texts"]>): Record<string, string> {
  const shown = (name: string, value: string | number | bigint): string =>
    typeof value !== "string" ? formatNumber(value) : texts[name] ? apiText(texts[name], value) : formatMoment(value);
  return Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, shown(name, value)]));
}

/** Return a value with its time in the person's locale, if it is one. */
const formatMoment = (value: string): string => (/^\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)$/.test(value) ? formatTime(value) : value);

/** Return the decision about a notification in a sentence: the setting and its day, as far as they are known. */
export function decisionText(row: Pick<Recipient, "status" | "reason" | "decision" | "decided_by">): string {
  const by = row.decided_by;
  const sentence = row.reason === "opted_out" && by ? (exclusion(by) ?? (by.category || by.channel ? optOut(by.category, by.channel) : plain(row))) : plain(row);
  return by?.changed_at ? `${sentence.replace(/\.$/, "")} (${t("decision.settingsOf", { day: formatDay(by.changed_at) })})` : sentence;
}

function optOut(category: string | null, channel: string | null): string {
  if (category && channel) return t("decision.optedOutOfBoth", { category, channel: known(`decision.by.${channel}`, channel) });
  return category ? t("decision.optedOutOfCategory", { category }) : t("decision.optedOutOfChannel", { channel: known(`decision.every.${channel}`, channel!) });
}

/** Return the sentence about a rule of the tenant, or of every tenant; null: the rule is the user's. */
function exclusion({ layer, category, channel }: NonNullable<Recipient["decided_by"]>): string | null {
  if (layer !== "tenant" && layer !== "global") return null;
  const by = channel && known(`decision.by.${channel}`, channel);
  const every = channel ? known(`exclusion.every.${channel}`, channel) : t("exclusion.other");
  const subject = category && by ? t("exclusion.both", { category, channel: by }) : (category ?? every);
  return t(`exclusion.by.${layer}`, { subject });
}

const plain = (row: Pick<Recipient, "status" | "reason" | "decision">): string =>
  row.reason ? known(`reason.${row.reason}`, row.decision) : known(`statusHelp.${row.status}`, row.decision);
