import type { Id } from "masscomm-client";
import { reactive } from "vue";
import type { PreviewRequest, ScheduleRequest, SendRequest } from "../api/types";
import { CHANNELS } from "../api/types";
import { audienceError, audienceOf, newAudience, type AudienceDraft } from "./audience";
import { digestIn } from "./categories";
import { idOf } from "./ids";
import { forget, kept } from "./kept";
import { newPush, pushError, pushOf, type PushDraft } from "./push";
import { parseRecipients, type Recipients } from "./recipients";
import { newRepeat, repeatErrors, timesOf, type Repeat, type RepeatErrors } from "./repeat";
import { instantOf, ownZone, timeError } from "./zones";

/** A send as the form has it. Every field is the text that the person entered. */
export interface Draft {
  type: string;
  club: string;
  mode: "words" | "template";
  title: string;
  body: string;
  template: string;
  data: { name: string; value: string }[];
  locale: string;
  channels: NonNullable<PreviewRequest["channels"]>;
  /** When each channel after the first one is used; empty: at once. And how long it waits, as 10m. */
  fallbackIf: "" | "not_sent" | "not_delivered";
  fallbackAfter: string;
  push: PushDraft;
  to: "list" | "audience";
  recipients: string;
  audience: AudienceDraft;
  /** At once, at a time of a zone, at a time of each recipient's own zone, or at the times of a schedule. */
  when: "now" | "later" | "local" | "repeat";
  at: string;
  repeat: Repeat;
  /** When the users of an audience are found: at the time of the send, or at the request. */
  audienceAt: NonNullable<SendRequest["audience_at"]>;
  zone: string;
  expires: string;
  priority: "bulk" | "critical";
  /** As that of a category (lib/categories.ts); without it, the one of the category applies. */
  digest: string;
  /** The most recipients a minute, or how long they are spread, as 2h. */
  perMinute: string;
  spreadOver: string;
  reference: string;
}

const MOST_A_MINUTE = 1_000_000;
const SPREAD = /^(([1-9]\d{0,3}|100[0-7]\d|10080)m|([1-9]\d?|1[0-5]\d|16[0-8])h|[1-7]d)$/;

/** Return whether a text is a number of recipients a minute. */
export const isPerMinute = (text: string) => /^[1-9]\d{0,6}$/.test(text.trim()) && Number(text) <= MOST_A_MINUTE;

/** An error that the form found; the value is the key of a message. */
export type DraftErrors = Partial<Record<"type" | "club_id" | "to_users" | "audience" | "channels" | "title" | "body" | "push" | "send_at" | "send_at_local" | "expires_at" | "digest" | "per_minute" | "spread_over" | "starts_at_local", string>> & RepeatErrors;

export const newDraft = (club: string): Draft =>
  reactive({
    type: "announcement",
    club,
    mode: "words",
    title: "",
    body: "",
    template: "",
    data: [{ name: "", value: "" }],
    locale: "",
    channels: [],
    fallbackIf: "",
    fallbackAfter: "10m",
    push: newPush(),
    to: "list",
    recipients: "",
    audience: newAudience(),
    when: "now",
    at: "",
    repeat: newRepeat(),
    audienceAt: "due",
    zone: ownZone(),
    expires: "",
    priority: "bulk",
    digest: "",
    perMinute: "",
    spreadOver: "",
    reference: "",
  });

/** Fill a draft with the one that this person kept (lib/kept.ts), and return whether there was one. It is taken once. */
export function takeDraft(draft: Draft, person: string): boolean {
  const found = kept("draft", person) as Partial<Draft> | null;
  forget("draft");
  // A draft that an earlier version kept may lack fields.
  if (found) Object.assign(draft, found, { audience: { ...newAudience(), ...found.audience }, push: { ...newPush(), ...found.push }, repeat: { ...newRepeat(), ...found.repeat } });
  return found !== null;
}

/** Return what is missing or wrong in a draft. The API checks everything again. */
export function errorsOf(draft: Draft, recipients: Recipients, nowMs: number): DraftErrors {
  const errors: DraftErrors = {};
  if (!draft.type.trim()) errors.type = "compose.required";
  if (idOf(draft.club) === null) errors.club_id = "compose.required";
  if (draft.to === "audience") {
    const wrong = audienceError(draft.audience);
    if (wrong) errors.audience = wrong;
  } else if (recipients.ids.length === 0) errors.to_users = "compose.required";
  else if (recipients.invalid.length) errors.to_users = "compose.invalid";
  else if (recipients.tooMany) errors.to_users = "compose.tooMany";
  if (needsWords(draft) && !draft.title.trim()) errors.title = "compose.required";
  if (needsWords(draft) && !draft.body.trim()) errors.body = "compose.required";
  if (hasFallbacks(draft) && !SPREAD.test(draft.fallbackAfter.trim())) errors.channels = "compose.noFallbackAfter";
  const wrong = pushError(draft.push);
  if (wrong) errors.push = `push.${wrong}`;
  if (digestIn(draft.digest) === undefined) errors.digest = "categories.noDigest";
  const [perMinute, spreadOver] = [draft.perMinute.trim(), draft.spreadOver.trim()];
  if (perMinute && !isPerMinute(perMinute)) errors.per_minute = "compose.noPerMinute";
  if (spreadOver && !SPREAD.test(spreadOver)) errors.spread_over = "compose.noSpread";
  if (perMinute && spreadOver) errors.spread_over = "compose.onePace";
  const time = (name: "send_at" | "send_at_local" | "expires_at", local: string): void => {
    const wrong = timeError(local, draft.zone, nowMs);
    if (wrong) errors[name] = wrong;
  };
  if (draft.when === "later") time("send_at", draft.at);
  if (draft.when === "local") {
    // A local time has passed once it has passed in the last zone, which is twelve hours behind UTC.
    const last = Date.parse(`${draft.at}Z`) + 12 * 3_600_000;
    if (Number.isNaN(last)) errors.send_at_local = "compose.required";
    else if (last <= nowMs) errors.send_at_local = "compose.past";
  }
  if (draft.when === "repeat") {
    Object.assign(errors, repeatErrors(draft.repeat));
    // It may have passed, and clocks may skip it: it says from when the rule counts.
    if (!draft.at) errors.starts_at_local = "compose.required";
  } else if (draft.expires) time("expires_at", draft.expires);
  return errors;
}

/** Return whether a draft needs a title and a text: those of a silent push are for other channels. */
const needsWords = (draft: Draft): boolean => draft.mode === "words" && !draft.push.silent;

/** Return whether channels of a draft wait for the one before them. */
export const hasFallbacks = (draft: Draft): boolean => draft.fallbackIf !== "" && draft.channels.length > 1;

/** Return the channels of a draft in their order, each after the first one with its condition. */
function channelsOf(draft: Draft): NonNullable<SendRequest["channels"]> {
  const condition = draft.fallbackIf;
  if (!condition || !hasFallbacks(draft)) return [...draft.channels];
  const after = draft.fallbackAfter.trim();
  const ordered = CHANNELS.filter((each) => draft.channels.includes(each));
  return ordered.map((channel, index) => (index ? { channel, if: condition, after } : channel));
}

type Content = Pick<PreviewRequest, "type" | "club_id" | "template" | "data" | "channels" | "locale" | "push">;

/** Return what determines the messages of a draft with a club. */
export function contentOf(draft: Draft): Content {
  const request: Content = { type: draft.type.trim(), club_id: idOf(draft.club)! };
  if (draft.mode === "words") {
    if (needsWords(draft) || (draft.title + draft.body).trim()) request.data = { title: draft.title, body: draft.body };
  } else {
    if (draft.template.trim()) request.template = draft.template.trim();
    request.data = Object.fromEntries(draft.data.filter((each) => each.name && each.value).map((each) => [each.name, each.value]));
  }
  if (draft.channels.length) request.channels = [...draft.channels];
  if (draft.locale.trim()) request.locale = draft.locale.trim();
  const push = pushOf(draft.push);
  if (push) request.push = push;
  return request;
}

/** Return whether a draft is a scheduled send to an audience. A recurring one finds its users each time. */
export const hasAudienceTime = (draft: Draft): boolean => draft.to === "audience" && draft.when !== "now" && draft.when !== "repeat";

/** Return the request of a draft without errors. */
export function requestOf(draft: Draft): SendRequest {
  const request: SendRequest = { ...contentOf(draft), priority: draft.priority };
  if (hasFallbacks(draft)) request.channels = channelsOf(draft);
  if (draft.to === "audience") request.audience = audienceOf(draft.audience);
  else request.to_users = parseRecipients(draft.recipients).ids;
  if (hasAudienceTime(draft)) request.audience_at = draft.audienceAt;
  const digest = digestIn(draft.digest);
  if (digest) request.digest = digest;
  if (draft.perMinute.trim()) request.per_minute = Number(draft.perMinute);
  if (draft.spreadOver.trim()) request.spread_over = draft.spreadOver.trim();
  if (draft.reference.trim()) request.reference = draft.reference.trim();
  const sendAt = draft.when === "later" ? instantOf(draft.at, draft.zone) : null;
  const expiresAt = draft.expires && draft.when !== "repeat" ? instantOf(draft.expires, draft.zone) : null;
  if (sendAt) request.send_at = sendAt;
  if (draft.when === "local") request.send_at_local = draft.at;
  if (expiresAt) request.expires_at = expiresAt;
  return request;
}

/** Return the schedule of a draft without errors that recurs. */
export const scheduleOf = (draft: Draft): ScheduleRequest => ({ ...timesOf(draft.repeat, draft.at, draft.zone), send: requestOf(draft) });

/**
 * Return what the numbers of a send depend on while it is written: its request with a stand-in for the person's own words, so
 * that typing asks for no numbers. The last page counts the words themselves.
 */
export function countedRequestOf(draft: Draft): SendRequest {
  const words = needsWords(draft) ? { data: { title: "-", body: "-" } } : {};
  const { reference: _reference, ...others } = requestOf(draft);
  return { ...others, ...words };
}

/** Return the request of a test: the same messages to one user, at once. */
export function testRequestOf(draft: Draft, userId: Id): SendRequest {
  return { ...contentOf(draft), to_users: [userId], priority: "bulk" };
}
