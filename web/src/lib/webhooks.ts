import type { AttemptResult, EventType, WebhookAuthentication, WebhookDelivery, WebhookEndpoint, WebhookRequest } from "../api/types";
import { idOf } from "./ids";

// Each type once: the type checker refuses a list that lacks one, or has another.
const TYPES: Record<Exclude<EventType, "webhook.test">, true> = {
  "send.accepted": true,
  "send.expanded": true,
  "send.paused": true,
  "send.resumed": true,
  "send.completed": true,
  "send.cancelled": true,
  "send.failed": true,
  "webhook.disabled": true,
};
/** The types of events that an endpoint can be limited to. */
export const EVENT_TYPES = Object.keys(TYPES) as (keyof typeof TYPES)[];

const RESULTS: Record<AttemptResult, true> = { delivered: true, retried: true, given_up: true };
/** The results of an attempt to send an event. */
export const ATTEMPT_RESULTS = Object.keys(RESULTS) as AttemptResult[];

export type EndpointState = "enabled" | "failing" | "disabled";

export function endpointState(endpoint: Pick<WebhookEndpoint, "enabled" | "failing_since">): EndpointState {
  if (!endpoint.enabled) return "disabled";
  return endpoint.failing_since === null ? "enabled" : "failing";
}

/** Return whether masscomm keeps the event, so that it can be sent again; other events have dead letters. */
export function isOwn(delivery: Pick<WebhookDelivery, "event_type">): boolean {
  return delivery.event_type.startsWith("send.") || delivery.event_type === "webhook.test";
}

/** Return the result of the last attempt: the status of the response, else why there was none; null before the first. */
export function lastResult(delivery: Pick<WebhookDelivery, "last_attempts">): string | null {
  const last = delivery.last_attempts[0];
  return last ? String(last.status ?? last.error ?? "–") : null;
}

/** Return the body of a request for a new endpoint. All types of events are the same as none. */
export function creationOf(draft: { club: string; url: string; description: string; contact: string; role: string; types: string[] }): WebhookRequest {
  const chosen = EVENT_TYPES.filter((type) => draft.types.includes(type));
  return {
    club_id: idOf(draft.club)!,
    url: draft.url.trim(),
    description: draft.description.trim(),
    contact_user_id: idOf(draft.contact),
    ...(draft.url.trim().startsWith("arn:") && { role_arn: draft.role.trim() || null }),
    event_types: chosen.length === EVENT_TYPES.length ? [] : chosen,
  };
}

export type AuthenticationType = WebhookAuthentication["type"];

interface CredentialField {
  name: Exclude<keyof WebhookAuthentication, "type">;
  secret?: true;
  optional?: true;
  /** The lines of a long text. */
  rows?: number;
  choices?: readonly string[];
}

/** The fields of each type of authentication. */
export const AUTHENTICATION_FIELDS: Record<AuthenticationType, readonly CredentialField[]> = {
  bearer: [{ name: "token", secret: true }],
  basic: [{ name: "username" }, { name: "password", secret: true }],
  headers: [{ name: "headers", secret: true, rows: 4 }],
  oauth2: [
    { name: "token_url" },
    { name: "client_id" },
    { name: "client_secret", secret: true },
    { name: "client_authentication", optional: true, choices: ["basic", "body"] },
    { name: "scope", optional: true },
    { name: "audience", optional: true },
  ],
  mtls: [
    { name: "certificate", rows: 6 },
    { name: "private_key", secret: true, rows: 6 },
  ],
};

/** Return an authentication from the texts of a form. Headers are lines such as `x-api-key: value`. */
export function authenticationOf(type: AuthenticationType, values: Readonly<Record<string, string>>): WebhookAuthentication {
  const given = AUTHENTICATION_FIELDS[type].map(({ name, secret }) => [name, secret && name !== "headers" ? values[name] : values[name]?.trim()] as const);
  const texts = Object.fromEntries(given.filter(([, value]) => value));
  return { ...texts, ...(texts["headers"] ? { headers: pairsOf(texts["headers"]) } : {}), type } as WebhookAuthentication;
}

/** Return the lines `name: value` of a text. */
export function pairsOf(text: string): Record<string, string> {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => [line.split(":")[0]!.trim(), line.slice(line.split(":")[0]!.length + 1).trim()]));
}
