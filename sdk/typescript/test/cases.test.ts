/** The cases that every client passes (sdk/cases.json), against a server on this machine. */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { ApiError, Client, ConnectionError, verifyWebhook } from "../src/index.js";
import { readJson, writeJson } from "../src/json.js";

type Answer = "lost" | "refused" | { status: number; headers?: Record<string, string>; body?: unknown; text?: string };
interface Call {
  operation: string;
  id: string;
  body: never;
  query: never;
  key?: string;
  if_match?: string;
  club_id: never;
  poll_s?: number;
  timeout_s?: number;
  unknown_s?: number;
}
interface Case {
  name: string;
  call: Call;
  answers: Answer[];
  requests: { count: number; method?: string; path?: string; body?: unknown; key?: string | null; if_match?: string; queries?: [string, string][][] };
  pauses?: (number | { at_most: number })[];
  result?: unknown;
  error?: string | Record<string, unknown>;
}
interface WebhookCase {
  name: string;
  secrets?: string[];
  headers?: Record<string, string>;
  body?: string;
  now_s?: number;
  tolerance_s?: number;
  result?: unknown;
  error?: string;
}

const { requests, webhooks } = readJson(readFileSync(new URL("../../cases.json", import.meta.url), "utf8")) as {
  requests: Case[];
  webhooks: [WebhookCase, ...WebhookCase[]];
};

interface Received {
  method: string | undefined;
  path: string;
  query: [string, string][];
  key: string | string[] | null;
  ifMatch: string | undefined;
  apiKey: unknown;
  body: unknown;
}

/** Answers requests in turn. A server that refuses at first listens from the first pause on. */
class Script {
  readonly received: Received[] = [];
  readonly pauses: number[] = [];
  #port = 0;
  readonly #server: Server;
  readonly #answers: Answer[];

  constructor(answers: Answer[]) {
    this.#answers = answers.filter((each) => each !== "refused");
    this.#server = createServer(async (request, response) => {
      let body = "";
      for await (const part of request.setEncoding("utf8")) body += part;
      const url = new URL(request.url!, "http://api.test");
      this.received.push({
        method: request.method,
        path: request.url!.split("?")[0]!,
        query: [...url.searchParams],
        key: request.headers["idempotency-key"] ?? null,
        ifMatch: request.headers["if-match"],
        apiKey: request.headers["x-api-key"],
        body: body && readJson(body),
      });
      const answer = this.#answers.shift();
      if (typeof answer !== "object") {
        request.socket.destroy();
        return;
      }
      response.writeHead(answer.status, { Connection: "close", ...answer.headers });
      response.end(answer.text ?? writeJson(answer.body ?? {}));
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(this.#port, "127.0.0.1", done));
    this.#port = (this.#server.address() as AddressInfo).port;
    return `http://127.0.0.1:${this.#port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  sleep = async (seconds: number): Promise<void> => {
    this.pauses.push(seconds);
    if (!this.#server.listening) await this.listen();
  };
}

async function execute(api: Client, { operation, id, body, query, key, if_match, club_id, poll_s, timeout_s, unknown_s }: Call): Promise<unknown> {
  switch (operation) {
    case "send":
      return api.send(body, key);
    case "get_send":
      return api.request("GET", "/v1/sends/{send_id}", { path: { send_id: id } });
    case "cancel":
      return api.request("POST", "/v1/sends/{send_id}/cancel", { path: { send_id: id } });
    case "delete_webhook":
      return api.request("DELETE", "/v1/webhooks/{endpoint_id}", { path: { endpoint_id: id } });
    case "delete_audience":
      return api.request("DELETE", "/v1/audiences/{name}", { path: { name: id }, query: { club_id } });
    case "delete_event_type":
      return api.request("DELETE", "/v1/event-types/{event_type}", { path: { event_type: id } });
    case "delete_subscription":
      return api.request("DELETE", "/v1/subscriptions/{subscription_id}", { path: { subscription_id: id } });
    case "set_category":
      return api.request("PUT", "/v1/categories/{category}", { path: { category: id }, body, ...(if_match && { headers: { "If-Match": if_match } }) });
    case "remove_suppression":
      return api.request("DELETE", "/v1/suppressions/{suppression}", { path: { suppression: id } });
    case "enable_device":
      return api.request("POST", "/v1/devices/{device_id}/enable", { path: { device_id: id as never } });
    case "sends":
      return listed(api.rows("/v1/sends", { query }));
    case "follow":
      return listed(
        api.follow(id, {
          ...(poll_s !== undefined && { pollS: poll_s }),
          ...(timeout_s !== undefined && { timeoutS: timeout_s }),
          ...(unknown_s !== undefined && { unknownS: unknown_s }),
        }),
      );
    default:
      throw new Error(`unknown operation ${operation}`);
  }
}

async function listed<Each>(rows: AsyncIterable<Each>): Promise<Each[]> {
  const found: Each[] = [];
  for await (const each of rows) found.push(each);
  return found;
}

test.each(requests)("$name", async ({ call, answers, requests: expected, pauses = [], result, error }) => {
  const script = new Script(answers);
  const url = await script.listen();
  if (answers[0] === "refused") await script.close();
  const done = await execute(new Client(url, { key: "mc_test", sleep: script.sleep }), call).then(
    (value) => ({ value }),
    (thrown: unknown) => ({ thrown }),
  );
  await script.close();

  if (error === undefined) expect(done).toEqual({ value: result });
  else if (!("thrown" in done)) expect.fail("no error");
  else if (typeof error === "object") {
    expect(done.thrown).toBeInstanceOf(ApiError);
    const { status, detail, errors, message, retryAfterS } = done.thrown as ApiError;
    expect({ status, detail, errors, message, retry_after_s: retryAfterS }).toEqual(error);
  } else if (error === "no response") expect(done.thrown).toBeInstanceOf(ConnectionError);
  else expect(done.thrown).toMatchObject({ name: "TimeoutError", message: error });

  const { received } = script;
  expect(received).toHaveLength(expected.count);
  for (const each of received) {
    expect(each.apiKey).toBe("mc_test");
    expect(each.ifMatch).toBe(expected.if_match);
    if (expected.method !== undefined) expect(each.method).toBe(expected.method);
    if (expected.path !== undefined) expect(each.path).toBe(expected.path);
    if (expected.body !== undefined) expect(each.body).toEqual(expected.body);
    if (expected.key === "made") expect(each.key).toMatch(/^[0-9a-f-]{36}$/);
    else if (expected.key !== undefined) expect(each.key).toBe(expected.key);
  }
  expect(new Set(received.map((each) => each.key)).size).toBe(1);
  if (expected.queries !== undefined) expect(received.map((each) => each.query)).toEqual(expected.queries);
  expect(script.pauses).toHaveLength(pauses.length);
  pauses.forEach((pause, at) => {
    if (typeof pause === "number") expect(script.pauses[at]).toBe(pause);
    else expect(script.pauses[at]).toBeLessThanOrEqual(pause.at_most);
  });
});

test.each(webhooks)("webhook: $name", async ({ result, error, ...given }) => {
  const [first] = webhooks;
  // A case has what differs from the first one.
  const { secrets, body, now_s, tolerance_s } = { ...first, ...given };
  const headers = "Webhook-Id" in (given.headers ?? {}) ? given.headers! : { ...first.headers, ...given.headers };
  const options = { nowS: now_s!, ...(tolerance_s !== undefined && { toleranceS: tolerance_s }) };
  const verified = verifyWebhook(secrets!, headers, new TextEncoder().encode(body!), options);
  if (error === undefined) expect(await verified).toEqual(result);
  else await expect(verified).rejects.toThrow(error);
});
