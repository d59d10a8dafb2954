import type { AttemptResult, EventType, WebhookDelivery, WebhookEndpoint, WebhookRequest } from "../api/types";
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

/** Return the result of the last attempt: the status of the response, else why there was none; null before the first. */
export function lastResult(delivery: Pick<WebhookDelivery, "last_attempts">): string | null {
  const last = delivery.last_attempts[0];
  return last ? String(last.status ?? last.error ?? "–") : null;
}

/** Return the body of a request for a new endpoint. All types of events are the same as none. */
export function creationOf(draft: { club: string; url: string; description: string; contact: string; types: string[] }): WebhookRequest {
  const chosen = EVENT_TYPES.filter((type) => draft.types.includes(type));
  return {
    club_id: idOf(draft.club)!,
    url: draft.url.trim(),
    description: draft.description.trim(),
    contact_user_id: idOf(draft.contact),
    event_types: chosen.length === EVENT_TYPES.length ? [] : chosen,
  };
}
