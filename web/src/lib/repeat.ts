/** The times of a schedule as a form has them. Every field is the text that the person entered. */
import type { ScheduleRequest } from "../api/types";

export const FREQUENCIES = ["DAILY", "WEEKLY", "MONTHLY", "rule"] as const;
export const DAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"] as const;
const MOST_MINUTES = 10_080;
const NAME = /^[A-Za-z0-9_.:-]{1,128}$/;
const SIMPLE = /^FREQ=(DAILY|WEEKLY|MONTHLY)(?:;BYDAY=((?:MO|TU|WE|TH|FR|SA|SU)(?:,(?:MO|TU|WE|TH|FR|SA|SU))*))?$/;

export interface Repeat {
  name: string;
  frequency: (typeof FREQUENCIES)[number];
  /** The days of a week; without one, that of the first time. */
  days: string[];
  /** The rule of RFC 5545, if the frequency is none of the others. */
  rule: string;
  expiresAfter: string;
  catchUp: NonNullable<ScheduleRequest["catch_up"]>;
}

export const newRepeat = (): Repeat => ({ name: "", frequency: "WEEKLY", days: [], rule: "", expiresAfter: "", catchUp: "none" });

/** Return the rule of these fields. The hour and the minute are those of the first time. */
export function ruleOf({ frequency, days, rule }: Pick<Repeat, "frequency" | "days" | "rule">): string {
  if (frequency === "rule") return rule.trim();
  const chosen = frequency === "WEEKLY" ? DAYS.filter((day) => days.includes(day)) : [];
  return `FREQ=${frequency}${chosen.length ? `;BYDAY=${chosen.join(",")}` : ""}`;
}

/** Return the fields of a rule. */
export function ruleIn(rule: string): Pick<Repeat, "frequency" | "days" | "rule"> {
  const [, frequency, days] = SIMPLE.exec(rule) ?? [];
  if (!frequency || (days && frequency !== "WEEKLY")) return { frequency: "rule", days: [], rule };
  return { frequency: frequency as Repeat["frequency"], days: days?.split(",") ?? [], rule: "" };
}

export type RepeatErrors = Partial<Record<"schedule" | "rule" | "expires_after_minutes", string>>;

/** Return what is missing or wrong; the values are keys of messages. The API checks everything again. */
export function repeatErrors(repeat: Repeat): RepeatErrors {
  const errors: RepeatErrors = {};
  if (!NAME.test(repeat.name.trim())) errors.schedule = "repeat.noName";
  if (!ruleOf(repeat)) errors.rule = "compose.required";
  const minutes = repeat.expiresAfter.trim();
  if (minutes && !(/^[1-9]\d{0,4}$/.test(minutes) && Number(minutes) <= MOST_MINUTES)) errors.expires_after_minutes = "repeat.noMinutes";
  return errors;
}

/** Return the fields of a schedule about its times. */
export const timesOf = (repeat: Repeat, at: string, zone: string): Omit<ScheduleRequest, "send"> => ({
  rule: ruleOf(repeat),
  time_zone: zone,
  starts_at_local: at,
  catch_up: repeat.catchUp,
  ...(repeat.expiresAfter.trim() && { expires_after_minutes: Number(repeat.expiresAfter) }),
});
