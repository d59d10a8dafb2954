import { ApiError, Client, ConnectionError, readJson, type Answer, type Arguments, type CallOptions, type Id, type Method, type PathOf } from "masscomm-client";
import type { TenantRules } from "../lib/tenantRules";
import { endSession, session } from "./session";
import type { AttemptResult, CategoryFields, EventFields, KeyRequest, Latencies, Metrics, PreviewRequest, ScheduleRequest, SendRequest, SourceFields, SubscriptionFields, Template, WebhookChange, WebhookRequest, WebhookSpan } from "./types";

export const EVENT_STREAM = "text/event-stream";
/** The longest wait of a long poll, in seconds. */
const WAIT_S = 20;
/** The longest time until the answer to a request that does not wait, a large list of recipients included. */
const ANSWER_S = 60;
/** The longest time until the answer to a long poll. A connection that a network change broke has none. */
const POLL_S = WAIT_S + 15;
const DAY_MS = 24 * 3_600_000;

/** Values as a form has them: the API refuses one that is not valid. Empty ones are left out. */
export type Query = Record<string, string | Id | readonly (string | Id)[] | null | undefined>;

// A person sees an error at once, and repeats the request; what repeats itself is in live.ts.
const api = new Client("", { key: null, attempts: 1, timeoutS: ANSWER_S, fetch: signedIn });

/** Send a request of the person who is signed in. A refused token ends the session, unless it was renewed meanwhile. */
async function signedIn(request: Request, init: { signal: AbortSignal }): Promise<Response> {
  const token = session.value?.token;
  if (token) request.headers.set("Authorization", `Bearer ${token}`);
  const response = await fetch(request, { ...init, credentials: "omit", cache: "no-cache" });
  if (response.status === 401 && token === session.value?.token) endSession();
  return response;
}

/** Return whether it is unknown if a request had an effect: its answer was lost, or the server failed. */
export const isLost = (failure: unknown): boolean => failure instanceof ConnectionError || (failure instanceof ApiError && failure.status >= 500);

/** Return the JSON body of a response. An answer that breaks off, or is not JSON, is one of an API that cannot be reached. */
export async function bodyOf<T>(response: Response): Promise<T> {
  try {
    return readJson(await response.text()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ConnectionError(error);
  }
}

/** An id as a person wrote it: the API refuses one that is not valid. */
const written = (id: string): Id => id as unknown as Id;

/** Return the query of a route. */
function filled<M extends Method, P extends PathOf<M>>(query: Query): Arguments<M, P>["query"] {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== "")) as Arguments<M, P>["query"];
}

/** Return a list, or another resource that a form filters. */
function listed<P extends PathOf<"GET">>(path: P, query: Query, options: CallOptions & { path?: unknown } = {}): Promise<Answer<"GET", P>> {
  return api.request<"GET", P>("GET", path, { ...options, query: filled<"GET", P>(query) } as Arguments<"GET", P> & CallOptions);
}

/** Request a send. A repeated call with the same idempotency key makes no second send. */
export const requestSend = (body: SendRequest, idempotencyKey: string, signal?: AbortSignal) =>
  api.request("POST", "/v1/sends", { body, idempotencyKey, signal });

/** Return a list without pages as one page. */
const whole = async <Row>(answer: Promise<{ rows: Row[] }>): Promise<{ rows: Row[]; next_cursor: null }> => ({ rows: (await answer).rows, next_cursor: null });

export const listCategories = (signal?: AbortSignal) => whole(api.request("GET", "/v1/categories", { signal }));
export const getCategory = (category: string, signal?: AbortSignal) => api.request("GET", "/v1/categories/{category}", { path: { category }, signal });
/** Return the versions of a category as a list. */
export const listVersions = (category: string, signal?: AbortSignal) => whole(getCategory(category, signal).then(({ versions }) => ({ rows: versions })));
/** Put a category, if it has the entity tag; null: if it does not exist. */
export const changeCategory = (category: string, body: CategoryFields, etag: string | null) =>
  api.request("PUT", "/v1/categories/{category}", { path: { category }, body, headers: etag === null ? { "If-None-Match": "*" } : { "If-Match": etag } });

export const listAudiences = (club_id: Id, signal?: AbortSignal) => whole(api.request("GET", "/v1/audiences", { query: { club_id }, signal }));
export const saveAudience = (name: string, club_id: Id, audience: { [name: string]: unknown }) =>
  api.request("PUT", "/v1/audiences/{name}", { path: { name }, query: { club_id }, body: { audience } });
export const deleteAudience = (name: string, club_id: Id) => api.request("DELETE", "/v1/audiences/{name}", { path: { name }, query: { club_id } });

export const getTenantRules = (tenant: Id) => api.request("GET", "/v1/tenants/{tenant}/preferences", { path: { tenant: String(tenant) } });
/** Replace the rules of a tenant, if they have the entity tag. */
export const putTenantRules = (tenant: Id, rules: TenantRules, etag: string) =>
  api.request("PUT", "/v1/tenants/{tenant}/preferences", { path: { tenant: String(tenant) }, body: rules, headers: { "If-Match": etag } });

export const getAudience = (name: string, club_id: Id) => api.request("GET", "/v1/audiences/{name}", { path: { name }, query: { club_id } });
/** Put an audience, if it has the entity tag; null: if it does not exist. */
export const putAudience = (name: string, club_id: Id, audience: { [name: string]: unknown }, etag: string | null) =>
  api.request("PUT", "/v1/audiences/{name}", { path: { name }, query: { club_id }, body: { audience }, headers: etag === null ? { "If-None-Match": "*" } : { "If-Match": etag } });
export const removeAudience = (name: string, club_id: Id, etag: string) =>
  api.request("DELETE", "/v1/audiences/{name}", { path: { name }, query: { club_id }, headers: { "If-Match": etag } });
export const countAudience = (club_id: Id, audience: { [name: string]: unknown }) => api.request("POST", "/v1/audiences/count", { body: { club_id, audience } });

export const listSchedules = (club_id: Id, signal?: AbortSignal) => whole(api.request("GET", "/v1/schedules", { query: { club_id }, signal }));
export const getSchedule = (schedule: string, club_id: Id) => api.request("GET", "/v1/schedules/{schedule}", { path: { schedule }, query: { club_id } });
export const saveSchedule = (schedule: string, club_id: Id, body: ScheduleRequest) => api.request("PUT", "/v1/schedules/{schedule}", { path: { schedule }, query: { club_id }, body });
export const pauseSchedule = (schedule: string, club_id: Id) => api.request("POST", "/v1/schedules/{schedule}/pause", { path: { schedule }, query: { club_id } });
export const resumeSchedule = (schedule: string, club_id: Id) => api.request("POST", "/v1/schedules/{schedule}/resume", { path: { schedule }, query: { club_id } });
export const deleteSchedule = (schedule: string, club_id: Id) => api.request("DELETE", "/v1/schedules/{schedule}", { path: { schedule }, query: { club_id } });

/** Return the templates of a club, and those for every club; at most `most`. */
export async function listTemplates(filters: { club_id: Id[]; type?: string[] }, most: number, signal: AbortSignal): Promise<Template[]> {
  const found: Template[] = [];
  for await (const template of api.rows("/v1/templates", { query: { ...filters, limit: 100 }, signal })) {
    if (found.push(template) === most) break;
  }
  return found;
}

/** Return what would become of a send, without sending it. */
export const forecastSend = (body: SendRequest, signal: AbortSignal) => api.request("POST", "/v1/dry-runs", { body, signal });

/** Render the messages of a send without sending them. */
export const previewSend = (body: PreviewRequest, signal: AbortSignal) => api.request("POST", "/v1/previews", { body, signal });

export const cancelSend = (send_id: string) => api.request("POST", "/v1/sends/{send_id}/cancel", { path: { send_id } });
export const pauseSend = (send_id: string) => api.request("POST", "/v1/sends/{send_id}/pause", { path: { send_id } });
export const resumeSend = (send_id: string) => api.request("POST", "/v1/sends/{send_id}/resume", { path: { send_id } });

/** Move a scheduled send to another time. A repeated call with the same time changes nothing. */
export const moveSend = (send_id: string, send_at: string) => api.request("PATCH", "/v1/sends/{send_id}", { path: { send_id }, body: { send_at } });

/** Change how many recipients a minute a running send releases. A repeated call with the same number changes nothing. */
export const paceSend = (send_id: string, per_minute: number) => api.request("PATCH", "/v1/sends/{send_id}", { path: { send_id }, body: { per_minute } });

export const getRecipients = (send_id: string, query: Query, signal?: AbortSignal) =>
  listed("/v1/sends/{send_id}/recipients", query, { path: { send_id }, signal });

/** Return the message of a send, while it is kept. */
export const getMessage = (send_id: string, signal: AbortSignal) => api.request("GET", "/v1/sends/{send_id}/message", { path: { send_id }, signal });

/** Return a user's notification on a channel with its timeline. */
export const getNotification = (sendId: string, userId: Id | string, channel: string, signal?: AbortSignal) =>
  api.request("GET", "/v1/notifications/{notification}", { path: { notification: `${sendId}.${userId}.${channel}` }, signal });

export const listSends = (query: Query, signal?: AbortSignal) => listed("/v1/sends", query, { signal });

export async function getMetrics(query: Query, signal?: AbortSignal): Promise<Metrics> {
  const response = await api.response("GET", "/v1/metrics", { query: filled<"GET", "/v1/metrics">(query), signal });
  const metrics = await bodyOf<Metrics>(response);
  // While the figures are the same, the browser repeats an earlier body (304); counting may have come further since.
  return { ...metrics, watermark: response.headers.get("Masscomm-Watermark") ?? metrics.watermark };
}

/** Return the rows of a query from all its pages; null if there are more than `most`. */
export async function getAllCounts(query: Query, most: number, signal: AbortSignal): Promise<Metrics["rows"] | null> {
  const rows: Metrics["rows"] = [];
  for await (const row of api.rows("/v1/metrics", { query: filled<"GET", "/v1/metrics">(query), signal })) {
    if (rows.push(row) > most) return null;
  }
  return rows;
}

export async function getMetricsCsv(query: Query): Promise<string> {
  const response = await api.response("GET", "/v1/metrics", { query: filled<"GET", "/v1/metrics">(query), headers: { Accept: "text/csv" } });
  return response.text();
}

export const getTrends = (query: Query, signal?: AbortSignal) => listed("/v1/metrics/trending", query, { signal });

/** Return how long notifications took; null for a person who may not see every tenant. */
export async function getLatency(query: Query, signal?: AbortSignal): Promise<Latencies | null> {
  try {
    return await api.request("GET", "/v1/metrics/latency", { query: filled<"GET", "/v1/metrics/latency">(query), signal });
  } catch (failure) {
    if (failure instanceof ApiError && failure.status === 403) return null;
    throw failure;
  }
}

/** Wait until a user has another version than `after`. */
export const awaitUser = (userId: string, after: string | null, signal: AbortSignal) =>
  api.request("GET", "/v1/users/{user_id}/stream", {
    path: { user_id: written(userId) },
    query: { ...(after !== null && { after }), wait: after === null ? 0 : WAIT_S },
    signal,
    timeoutS: POLL_S,
  });

export const getUserNotifications = (userId: string, query: Query, signal?: AbortSignal) =>
  listed("/v1/users/{user_id}/notifications", query, { path: { user_id: written(userId) }, signal });

export const getOverview = (query: Query, signal?: AbortSignal) => listed("/v1/overview", query, { signal });
export const getHealth = (signal?: AbortSignal) => api.request("GET", "/v1/health", { signal });
export const getAlarms = (signal?: AbortSignal) => api.request("GET", "/v1/alarms", { signal });

export const listDeadLetters = (query: Query, signal?: AbortSignal) => listed("/v1/dead-letters", query, { signal });
export const getDeadLetter = (position: string) => api.request("GET", "/v1/dead-letters/{position}", { path: { position } });
export const replayDeadLetter = (position: string) => api.request("POST", "/v1/dead-letters/{position}/replay", { path: { position } });
export const discardDeadLetter = (position: string, reason: string) =>
  api.request("POST", "/v1/dead-letters/{position}/discard", { path: { position }, body: { reason } });

export const listDevices = (query: Query, signal?: AbortSignal) => listed("/v1/devices", query, { signal });
export const countDevices = (query: Query) => listed("/v1/devices/counts", query);
export const enableDevice = (device_id: Id) => api.request("POST", "/v1/devices/{device_id}/enable", { path: { device_id: String(device_id) } });

export const listSuppressions = (query: Query, signal?: AbortSignal) => listed("/v1/suppressions", query, { signal });
export const removeSuppression = (suppression: string) => api.request("DELETE", "/v1/suppressions/{suppression}", { path: { suppression } });

export const listKeys = (query: Query, signal?: AbortSignal) => listed("/v1/keys", query, { signal });

/** Create a key. A repeated call with the same idempotency key makes no second one, and returns no text of the key. */
export const createKey = (body: KeyRequest, idempotencyKey: string) => api.request("POST", "/v1/keys", { body, idempotencyKey });

/** Rotate a key; as createKey. */
export const rotateKey = (key_id: string, idempotencyKey: string) => api.request("POST", "/v1/keys/{key_id}/rotate", { path: { key_id }, body: {}, idempotencyKey });
export const revokeKey = (key_id: string) => api.request("POST", "/v1/keys/{key_id}/revoke", { path: { key_id } });

export const listWebhooks = (query: Query, signal?: AbortSignal) => listed("/v1/webhooks", query, { signal });

/** Create an endpoint. A repeated call with the same idempotency key returns the same one. */
export const createWebhook = (body: WebhookRequest, idempotencyKey: string) => api.request("POST", "/v1/webhooks", { body, idempotencyKey });
export const changeWebhook = (endpoint_id: string, body: WebhookChange) => api.request("PATCH", "/v1/webhooks/{endpoint_id}", { path: { endpoint_id }, body });
export const deleteWebhook = (endpoint_id: string) => api.request("DELETE", "/v1/webhooks/{endpoint_id}", { path: { endpoint_id } });
export const rotateWebhook = (endpoint_id: string) => api.request("POST", "/v1/webhooks/{endpoint_id}/rotate", { path: { endpoint_id } });
export const testWebhook = (endpoint_id: string) => api.request("POST", "/v1/webhooks/{endpoint_id}/test", { path: { endpoint_id } });
export const testWebhookType = (endpoint_id: string, event_type: string) => api.request("POST", "/v1/webhooks/{endpoint_id}/test/{event_type}", { path: { endpoint_id, event_type } });

export const listWebhookDeliveries = (endpoint_id: string, query: Query, signal?: AbortSignal) =>
  listed("/v1/webhooks/{endpoint_id}/deliveries", query, { path: { endpoint_id }, signal });
export const resendWebhook = (endpoint_id: string, delivery_id: string) =>
  api.request("POST", "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend", { path: { endpoint_id, delivery_id } });

export const listWebhookLog = (endpoint_id: string, query: Query, signal?: AbortSignal) =>
  listed("/v1/webhooks/{endpoint_id}/log", query, { path: { endpoint_id }, signal });

export const listWebhookDeadLetters = (endpoint_id: string, query: Query, signal?: AbortSignal) =>
  listed("/v1/webhooks/{endpoint_id}/dead-letters", query, { path: { endpoint_id }, signal });

/** Delete the dead letters of an endpoint up to one of them. Return their number. */
export async function acknowledgeWebhooks(endpoint_id: string, up_to: string): Promise<number> {
  for (let count = 0; ; ) {
    const answer = await api.request("POST", "/v1/webhooks/{endpoint_id}/dead-letters/ack", { path: { endpoint_id }, body: { up_to } });
    count += answer.acknowledged;
    if (!answer.truncated) return count;
  }
}

/** Send dead letters of an endpoint again: single ones, or all of a type. Return their number. */
export async function replayWebhooks(endpoint_id: string, span: WebhookSpan): Promise<number> {
  for (let count = 0; ; ) {
    const answer = await api.request("POST", "/v1/webhooks/{endpoint_id}/dead-letters/replay", { path: { endpoint_id }, body: span });
    count += answer.replayed;
    if (!answer.truncated) return count;
  }
}

/** Count the attempts to send events to an endpoint in the last 24 hours, in whole hours. */
export async function countWebhookAttempts(endpoint_id: string, signal: AbortSignal): Promise<Record<AttemptResult, bigint>> {
  const now = Date.now();
  const [start, end] = [now - DAY_MS, now].map((moment) => new Date(moment).toISOString()) as [string, string];
  const counts: Record<AttemptResult, bigint> = { delivered: 0n, retried: 0n, given_up: 0n };
  const query = { granularity: "hour" as const, start, end };
  for await (const row of api.rows("/v1/webhooks/{endpoint_id}/metrics", { path: { endpoint_id }, query, signal })) {
    counts[row.status] += BigInt(row.count_total);
  }
  return counts;
}

export const listEventTypes = (signal?: AbortSignal) => whole(api.request("GET", "/v1/event-types", { signal }));

/** Return the subscriptions of an endpoint, or the rules of a club. */
export const listSubscriptions = (query: Query, signal?: AbortSignal) => whole(listed("/v1/subscriptions", query, { signal }));
export const createSubscription = (body: SubscriptionFields) => api.request("POST", "/v1/subscriptions", { body });
export const deleteSubscription = (subscription_id: string) => api.request("DELETE", "/v1/subscriptions/{subscription_id}", { path: { subscription_id } });

/** Return the subscriptions that would match an event, which is not reported. */
export const matchEvent = (body: EventFields) => api.request("POST", "/v1/subscriptions/matches", { body });

export const listSources = (query: Query, signal?: AbortSignal) => whole(listed("/v1/sources", query, { signal }));
export const getSource = (source_id: string, signal?: AbortSignal) => api.request("GET", "/v1/sources/{source_id}", { path: { source_id }, signal });
export const createSource = (body: SourceFields) => api.request("POST", "/v1/sources", { body });
export const changeSource = (source_id: string, body: SourceFields) => api.request("PUT", "/v1/sources/{source_id}", { path: { source_id }, body });
export const deleteSource = (source_id: string) => api.request("DELETE", "/v1/sources/{source_id}", { path: { source_id } });

export const listAudit = (query: Query, signal?: AbortSignal) => listed("/v1/audit", query, { signal });

/**
 * Follow a send after a version: as server-sent events where the server streams, else as one answer of a long poll.
 * `poll` asks for the latter.
 */
export const openSendEvents = (send_id: string, after: string | null, poll: boolean, signal: AbortSignal): Promise<Response> =>
  api.response("GET", "/v1/sends/{send_id}/events", {
    path: { send_id },
    query: { ...(after !== null && { after }), wait: after === null ? 0 : WAIT_S },
    headers: { Accept: poll ? "application/json" : `${EVENT_STREAM}, application/json;q=0.9` },
    signal,
    timeoutS: poll ? POLL_S : null,
  });

/** Wait until a batch was counted after the position `since`. */
export const awaitCounts = (since: string | null, signal: AbortSignal) =>
  api.request("GET", "/v1/metrics/stream", { query: { ...(since !== null && { since }), wait: since === null ? 0 : WAIT_S }, signal, timeoutS: POLL_S });
