import type { Id } from "../lib/ids";
import { readJson, writeJson } from "../lib/json";
import { bodyOf, Problem, queryText, Unreachable, type Query } from "./http";
import { endSession, session } from "./session";
import type {
  AcceptedSend,
  Alarms,
  AuditPage,
  Categories,
  DeadLetter,
  DeadLetters,
  DeviceCounts,
  Devices,
  Forecast,
  Health,
  Keys,
  NewKey,
  NewWebhook,
  Overview,
  Metrics,
  Notification,
  Preferences,
  Preview,
  PreviewRequest,
  ProblemBody,
  Recipients,
  SendList,
  SendRequest,
  SentMessage,
  StreamPosition,
  Suppressions,
  Templates,
  Trends,
  User,
  UserNotifications,
  WebhookDeliveries,
  WebhookRequest,
  Webhooks,
} from "./types";

const JSON_TYPE = "application/json";
export const EVENT_STREAM = "text/event-stream";
/** The longest wait of a long poll, in seconds. */
const WAIT_S = 20;
/** The longest time until the answer to a request that does not wait, a large list of recipients included. */
const ANSWER_MS = 60_000;
/** The longest time until the answer to a long poll. A connection that a network change broke has none. */
const POLL_MS = WAIT_S * 1_000 + 15_000;

interface Options {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The longest time until the whole answer; null: no limit, as for a stream. */
  limitMs?: number | null;
}

async function fetched(path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: JSON_TYPE, ...options.headers };
  const token = session.value?.token;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (options.body !== undefined) headers["Content-Type"] = JSON_TYPE;
  const settings: RequestInit = { method: options.method ?? "GET", headers, credentials: "omit", cache: "no-cache" };
  if (options.body !== undefined) settings.body = writeJson(options.body);
  const limitMs = options.limitMs === undefined ? ANSWER_MS : options.limitMs;
  const signals = [options.signal, limitMs === null ? undefined : AbortSignal.timeout(limitMs)].filter((each) => each !== undefined);
  settings.signal = AbortSignal.any(signals);
  let response: Response;
  try {
    response = await fetch(path + queryText(options.query ?? {}), settings);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable(String(error));
  }
  if (response.status === 401 && token === session.value?.token) endSession();
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  const retryAfter = Number(response.headers.get("Retry-After"));
  let body: Partial<ProblemBody> = {};
  try {
    body = readJson(await response.text()) as typeof body;
  } catch {
    // The response of a proxy may have no problem details; its status says enough.
  }
  return new Problem(
    response.status,
    body.detail ?? body.title ?? `HTTP ${response.status}`,
    body.errors ?? [],
    retryAfter > 0 ? retryAfter : null,
    body,
  );
}

async function json<T>(path: string, options: Options = {}): Promise<T> {
  return bodyOf(await fetched(path, options));
}

function sendPath(sendId: string, action = ""): string {
  return `/v1/sends/${encodeURIComponent(sendId)}${action}`;
}

/** Request a send. A repeated call with the same idempotency key makes no second send. */
export function requestSend(body: SendRequest, idempotencyKey: string, signal?: AbortSignal): Promise<AcceptedSend> {
  return json("/v1/sends", { method: "POST", body, headers: { "Idempotency-Key": idempotencyKey }, ...(signal && { signal }) });
}

export function listCategories(signal?: AbortSignal): Promise<Categories> {
  return json("/v1/categories", { ...(signal && { signal }) });
}

export function listTemplates(query: Query, signal?: AbortSignal): Promise<Templates> {
  return json("/v1/templates", { query, ...(signal && { signal }) });
}

/** Return what would become of a send, without sending it. */
export function forecastSend(body: SendRequest, signal: AbortSignal): Promise<Forecast> {
  return json("/v1/dry-runs", { method: "POST", body, signal });
}

/** Render the messages of a send without sending them. */
export function previewSend(body: PreviewRequest, signal: AbortSignal): Promise<Preview> {
  return json("/v1/previews", { method: "POST", body, signal });
}

export function cancelSend(sendId: string): Promise<unknown> {
  return json(sendPath(sendId, "/cancel"), { method: "POST", body: {} });
}

export function pauseSend(sendId: string): Promise<unknown> {
  return json(sendPath(sendId, "/pause"), { method: "POST", body: {} });
}

export function resumeSend(sendId: string): Promise<unknown> {
  return json(sendPath(sendId, "/resume"), { method: "POST", body: {} });
}

/** Move a scheduled send to another time. A repeated call with the same time changes nothing. */
export function moveSend(sendId: string, sendAt: string): Promise<unknown> {
  return json(sendPath(sendId), { method: "PATCH", body: { send_at: sendAt } });
}

export function getRecipients(sendId: string, query: Query, signal?: AbortSignal): Promise<Recipients> {
  return json(sendPath(sendId, "/recipients"), { query, ...(signal && { signal }) });
}

/** Return the message of a send, while it is kept. */
export function getMessage(sendId: string, signal: AbortSignal): Promise<SentMessage> {
  return json(sendPath(sendId, "/message"), { signal });
}

/** Return a notification with its timeline. `path` is the link of a recipient. */
export function getNotification(path: string, signal?: AbortSignal): Promise<Notification> {
  return json(path, { ...(signal && { signal }) });
}

export function listSends(query: Query, signal?: AbortSignal): Promise<SendList> {
  return json("/v1/sends", { query, ...(signal && { signal }) });
}

export async function getMetrics(query: Query, signal?: AbortSignal): Promise<Metrics> {
  const response = await fetched("/v1/metrics", { query, ...(signal && { signal }) });
  const metrics = await bodyOf<Metrics>(response);
  // While the figures are the same, the browser repeats an earlier body (304); counting may have come further since.
  return { ...metrics, watermark: response.headers.get("Masscomm-Watermark") ?? metrics.watermark };
}

/** Return the rows of a query from all its pages; null if there are more than `most` pages. */
export async function getAllCounts(query: Query, most: number, signal: AbortSignal): Promise<Metrics["rows"] | null> {
  const rows: Metrics["rows"] = [];
  let cursor: string | null = null;
  for (let page = 0; page < most; page += 1) {
    const found: Metrics = await getMetrics({ ...query, cursor }, signal);
    rows.push(...found.rows);
    if (found.next_cursor === null) return rows;
    cursor = found.next_cursor;
  }
  return null;
}

export async function getMetricsCsv(query: Query): Promise<string> {
  return (await fetched("/v1/metrics", { query, headers: { Accept: "text/csv" } })).text();
}

export function getTrends(query: Query, signal?: AbortSignal): Promise<Trends> {
  return json("/v1/metrics/trending", { query, ...(signal && { signal }) });
}

function userPath(userId: string, part = ""): string {
  return `/v1/users/${encodeURIComponent(userId)}${part}`;
}

export function getUser(userId: string, signal?: AbortSignal): Promise<User> {
  return json(userPath(userId), { ...(signal && { signal }) });
}

export function getPreferences(userId: string, signal?: AbortSignal): Promise<Preferences> {
  return json(userPath(userId, "/preferences"), { ...(signal && { signal }) });
}

export function getUserNotifications(userId: string, query: Query, signal?: AbortSignal): Promise<UserNotifications> {
  return json(userPath(userId, "/notifications"), { query, ...(signal && { signal }) });
}

export function getOverview(query: Query, signal?: AbortSignal): Promise<Overview> {
  return json("/v1/overview", { query, ...(signal && { signal }) });
}

export function getHealth(signal?: AbortSignal): Promise<Health> {
  return json("/v1/health", { ...(signal && { signal }) });
}

export function getAlarms(signal?: AbortSignal): Promise<Alarms> {
  return json("/v1/alarms", { ...(signal && { signal }) });
}

export function listDeadLetters(query: Query, signal?: AbortSignal): Promise<DeadLetters> {
  return json("/v1/dead-letters", { query, ...(signal && { signal }) });
}

export function getDeadLetter(position: string): Promise<DeadLetter> {
  return json(`/v1/dead-letters/${encodeURIComponent(position)}`);
}

export function replayDeadLetter(position: string): Promise<unknown> {
  return json(`/v1/dead-letters/${encodeURIComponent(position)}/replay`, { method: "POST", body: {} });
}

export function discardDeadLetter(position: string, reason: string): Promise<unknown> {
  return json(`/v1/dead-letters/${encodeURIComponent(position)}/discard`, { method: "POST", body: { reason } });
}

export function listDevices(query: Query, signal?: AbortSignal): Promise<Devices> {
  return json("/v1/devices", { query, ...(signal && { signal }) });
}

export function countDevices(query: Query): Promise<DeviceCounts> {
  return json("/v1/devices/counts", { query });
}

export function enableDevice(id: Id): Promise<unknown> {
  return json(`/v1/devices/${id}/enable`, { method: "POST", body: {} });
}

export function listSuppressions(query: Query, signal?: AbortSignal): Promise<Suppressions> {
  return json("/v1/suppressions", { query, ...(signal && { signal }) });
}

export function removeSuppression(id: string): Promise<unknown> {
  return json(`/v1/suppressions/${encodeURIComponent(id)}`, { method: "DELETE" });
}

export function listKeys(query: Query, signal?: AbortSignal): Promise<Keys> {
  return json("/v1/keys", { query, ...(signal && { signal }) });
}

/** Create a key. A repeated call with the same idempotency key makes no second one, and returns no text of the key. */
export function createKey(body: unknown, idempotencyKey: string): Promise<NewKey> {
  return json("/v1/keys", { method: "POST", body, headers: { "Idempotency-Key": idempotencyKey } });
}

/** Rotate a key; as createKey. */
export function rotateKey(id: string, idempotencyKey: string): Promise<NewKey> {
  return json(`/v1/keys/${encodeURIComponent(id)}/rotate`, { method: "POST", body: {}, headers: { "Idempotency-Key": idempotencyKey } });
}

export function revokeKey(id: string): Promise<unknown> {
  return json(`/v1/keys/${encodeURIComponent(id)}/revoke`, { method: "POST", body: {} });
}

function webhookPath(id: string, action = ""): string {
  return `/v1/webhooks/${encodeURIComponent(id)}${action}`;
}

export function listWebhooks(query: Query, signal?: AbortSignal): Promise<Webhooks> {
  return json("/v1/webhooks", { query, ...(signal && { signal }) });
}

/** Create an endpoint. A repeated call with the same idempotency key returns the same one. */
export function createWebhook(body: WebhookRequest, idempotencyKey: string): Promise<NewWebhook> {
  return json("/v1/webhooks", { method: "POST", body, headers: { "Idempotency-Key": idempotencyKey } });
}

export function changeWebhook(id: string, body: { enabled: boolean }): Promise<unknown> {
  return json(webhookPath(id), { method: "PATCH", body });
}

export function deleteWebhook(id: string): Promise<unknown> {
  return json(webhookPath(id), { method: "DELETE" });
}

export function rotateWebhook(id: string): Promise<NewWebhook> {
  return json(webhookPath(id, "/rotate"), { method: "POST", body: {} });
}

export function testWebhook(id: string): Promise<unknown> {
  return json(webhookPath(id, "/test"), { method: "POST", body: {} });
}

export function listWebhookDeliveries(id: string, query: Query, signal?: AbortSignal): Promise<WebhookDeliveries> {
  return json(webhookPath(id, "/deliveries"), { query, ...(signal && { signal }) });
}

export function resendWebhook(id: string, deliveryId: string): Promise<unknown> {
  return json(webhookPath(id, `/deliveries/${encodeURIComponent(deliveryId)}/resend`), { method: "POST", body: {} });
}

export function listAudit(query: Query, signal?: AbortSignal): Promise<AuditPage> {
  return json("/v1/audit", { query, ...(signal && { signal }) });
}

/**
 * Follow a send after a version: as server-sent events where the server streams, else as one answer of a long poll.
 * `poll` asks for the latter.
 */
export function openSendEvents(sendId: string, after: string | null, poll: boolean, signal: AbortSignal): Promise<Response> {
  return fetched(sendPath(sendId, "/events"), {
    query: { after, wait: after === null ? 0 : WAIT_S },
    headers: { Accept: poll ? JSON_TYPE : `${EVENT_STREAM}, ${JSON_TYPE};q=0.9` },
    signal,
    limitMs: poll ? POLL_MS : null,
  });
}

/** Wait until a batch was counted after the position `since`. */
export function awaitCounts(since: string | null, signal: AbortSignal): Promise<StreamPosition> {
  return json("/v1/metrics/stream", { query: { since, wait: since === null ? 0 : WAIT_S }, signal, limitMs: POLL_MS });
}
