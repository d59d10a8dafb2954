/** What only this client has: requests that end early, other ways to send them, and responses with unread bodies. */

import { expect, test } from "vitest";
import { ApiError, Client, ConnectionError } from "../src/index.js";

type Fetch = (request: Request, init: { signal: AbortSignal }) => Promise<Response>;
const client = (fetch: Fetch, options = {}): Client => new Client("http://api.test", { key: null, fetch, sleep: async () => {}, ...options });
const waiting: Fetch = (_, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("a function in place of fetch adds the headers of a person", async () => {
  const api = client(async (request) => {
    request.headers.set("Authorization", "Bearer t");
    return Response.json({ seen: request.headers.get("Authorization"), key: request.headers.get("x-api-key") });
  });
  expect(await api.request("GET", "/v1/health")).toEqual({ seen: "Bearer t", key: null });
});

test.each([1, 2])("an ended request of %i attempts is neither repeated nor a connection error", async (attempts) => {
  const ending = new AbortController();
  let requests = 0;
  const api = client((request, init) => ((requests += 1), waiting(request, init)), { attempts });
  const request = api.request("GET", "/v1/health", { signal: ending.signal });
  ending.abort();
  await expect(request).rejects.toMatchObject({ name: "AbortError" });
  expect(requests).toBe(1);
});

test("a request ends during the pause before its repetition", async () => {
  const ending = new AbortController();
  const sleep = (): Promise<void> => (ending.abort(), new Promise(() => {}));
  const api = client(async () => new Response("{}", { status: 503 }), { sleep });
  await expect(api.request("GET", "/v1/health", { signal: ending.signal })).rejects.toMatchObject({ name: "AbortError" });
});

test("an attempt without a response in its time is repeated", async () => {
  let requests = 0;
  const api = client((request, init) => ((requests += 1), waiting(request, init)), { attempts: 2 });
  const failure = await api.request("GET", "/v1/health", { timeoutS: 0.001 }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ConnectionError);
  expect((failure as ConnectionError).cause).toMatchObject({ name: "TimeoutError" });
  expect(requests).toBe(2);
});

test("a response is returned with its headers and its body unread", async () => {
  const api = client(async (request) => new Response(request.headers.get("Accept"), { headers: { "Masscomm-Watermark": "w" } }));
  const query = { granularity: "hour", start: "a", end: "b" } as const;
  const response = await api.response("GET", "/v1/metrics", { query, headers: { Accept: "text/csv" }, timeoutS: null });
  expect([response.headers.get("Masscomm-Watermark"), response.bodyUsed, await response.text()]).toEqual(["w", false, "text/csv"]);
});

test("a successful response that is not JSON is not the API's", async () => {
  await expect(client(async () => new Response("<html>")).request("GET", "/v1/health")).rejects.toThrow(ConnectionError);
});

test("a refusal has the code of its text, and that of a proxy has none", async () => {
  const problem = { detail: "The send has ended.", code: "send_ended", parameters: {} };
  const refused = (body: BodyInit): Promise<unknown> =>
    client(async () => new Response(body, { status: 409 })).request("GET", "/v1/health").catch((error: unknown) => error);
  expect(await refused(JSON.stringify(problem))).toMatchObject({ detail: problem.detail, problem });
  const ofProxy = await refused("<p>Conflict");
  expect(ofProxy).toBeInstanceOf(ApiError);
  expect(ofProxy).toMatchObject({ detail: "<p>Conflict", problem: {} });
});
