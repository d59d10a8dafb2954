import { Problem, queryText, Unreachable, type Query } from "./http";
import { endSession, session } from "./session";
import type {
  AcceptedSend,
  Metrics,
  Notification,
  Preview,
  PreviewRequest,
  ProblemBody,
  Recipients,
  Send,
  SendList,
  SendRequest,
  StreamPosition,
  Trends,
  UserNotifications,
} from "./types";

interface Options {
  method?: "GET" | "POST";
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

async function fetched(path: string, options: Options): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  const token = session.value?.token;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const settings: RequestInit = { method: options.method ?? "GET", headers, credentials: "omit", cache: "no-cache" };
  if (options.body !== undefined) settings.body = JSON.stringify(options.body);
  if (options.signal) settings.signal = options.signal;
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
    body = (await response.json()) as typeof body;
  } catch {
    // The response of a proxy may have no problem details; its status says enough.
  }
  return new Problem(
    response.status,
    body.detail ?? body.title ?? `HTTP ${response.status}`,
    body.errors ?? [],
    retryAfter > 0 ? retryAfter : null,
  );
}

async function json<T>(path: string, options: Options = {}): Promise<T> {
  const response = await fetched(path, options);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable(String(error));
  }
}

function sendPath(sendId: string, action = ""): string {
  return `/v1/sends/${encodeURIComponent(sendId)}${action}`;
}

/** Request a send. A repeated call with the same idempotency key makes no second send. */
export function requestSend(body: SendRequest, idempotencyKey: string): Promise<AcceptedSend> {
  return json("/v1/sends", { method: "POST", body, headers: { "Idempotency-Key": idempotencyKey } });
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

export function getRecipients(sendId: string, query: Query, signal?: AbortSignal): Promise<Recipients> {
  return json(sendPath(sendId, "/recipients"), { query, ...(signal && { signal }) });
}

/** Return a notification with its timeline. `path` is the link of a recipient. */
export function getNotification(path: string): Promise<Notification> {
  return json(path);
}

export function listSends(query: Query, signal?: AbortSignal): Promise<SendList> {
  return json("/v1/sends", { query, ...(signal && { signal }) });
}

export function getSend(sendId: string, signal?: AbortSignal): Promise<Send> {
  return json(sendPath(sendId), { ...(signal && { signal }) });
}

export function getMetrics(query: Query, signal?: AbortSignal): Promise<Metrics> {
  return json("/v1/metrics", { query, ...(signal && { signal }) });
}

export async function getMetricsCsv(query: Query): Promise<string> {
  return (await fetched("/v1/metrics", { query, headers: { Accept: "text/csv" } })).text();
}

export function getTrends(query: Query, signal?: AbortSignal): Promise<Trends> {
  return json("/v1/metrics/trending", { query, ...(signal && { signal }) });
}

export function getUserNotifications(userId: string, query: Query, signal?: AbortSignal): Promise<UserNotifications> {
  return json(`/v1/users/${encodeURIComponent(userId)}/notifications`, { query, ...(signal && { signal }) });
}

/** Wait until a batch was counted after the position `since`, at most `waitS` seconds. */
export function awaitCounts(since: string | null, waitS: number, signal: AbortSignal): Promise<StreamPosition> {
  return json("/v1/metrics/stream", { query: { since, wait: waitS }, signal });
}
