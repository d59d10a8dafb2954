/** The client: requests, their repetition, lists, and sends that are followed. */

import { ApiError, ConnectionError, retryAfterS } from "./errors.js";
import { readJson, writeJson } from "./json.js";
import {
  KEYED,
  REMOVED,
  type AcceptedBody,
  type Answer,
  type Arguments,
  type ListPath,
  type Method,
  type Optional,
  type PathOf,
  type Row,
  type SendBody,
  type SendRequest,
} from "./routes.js";

const KEY = "Idempotency-Key";
/** Statuses after which the same request may succeed. */
const PASSING = new Set([409, 429, 500, 502, 503, 504]);
/** Node's errors before a request can have reached the API. Browsers do not say which error it was. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
const FIRST_PAUSE_S = 0.25;
const LONGEST_PAUSE_S = 30;

export interface ClientOptions {
  /** The API key; null sends none. */
  key: string | null;
  /** The maximum number of attempts of each request. */
  attempts?: number;
  /** The seconds that one attempt may take. */
  timeoutS?: number;
  /** The function that waits between two attempts, for tests. */
  sleep?: (seconds: number) => Promise<void>;
  /** The function that sends each attempt, in place of fetch: to add headers, such as those of a signed-in person. */
  fetch?: (request: Request, init: { signal: AbortSignal }) => Promise<Response>;
}

/** How one request differs from the others of its client. */
export interface CallOptions {
  /** Ends the request, whose promise is then rejected with the signal's reason. The API may have executed it. */
  signal?: AbortSignal | undefined;
  /** The seconds that one attempt may take, its body included; null: no limit, as for a stream. */
  timeoutS?: number | null;
  /** Further headers, such as Accept. */
  headers?: Readonly<Record<string, string>>;
}

export interface FollowOptions {
  /** The seconds after which following ends with a TimeoutError. */
  timeoutS?: number;
  /** The seconds between two reads. */
  pollS?: number;
  /** The seconds in which the send may be unknown: a send by Kafka is, until it is counted. */
  unknownS?: number;
}

/** The arguments of a request, apart from their types. */
interface Given extends CallOptions {
  path?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
  body?: unknown;
  idempotencyKey?: string;
}

/** A successful response as it was read, a refusal with its text, or the error of an attempt without a response. */
type Attempt<T> = { value: T } | { response: Response; text: string } | { error: unknown };
type Reading<T> = (response: Response) => T | Promise<T>;

export class Client {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #attempts: number;
  readonly #timeoutS: number;
  readonly #sleep: (seconds: number) => Promise<void>;
  readonly #fetch: NonNullable<ClientOptions["fetch"]>;

  /** @param url The base URL; in a browser, an empty one is the origin of the page. */
  constructor(
    url: string,
    { key, attempts = 4, timeoutS = 30, sleep = sleepFor, fetch = globalThis.fetch.bind(globalThis) }: ClientOptions,
  ) {
    if (attempts < 1) throw new RangeError("attempts must be at least 1");
    this.#url = url.replace(/\/$/, "");
    this.#headers = key === null ? {} : { "x-api-key": key };
    this.#attempts = attempts;
    this.#timeoutS = timeoutS;
    this.#sleep = sleep;
    this.#fetch = fetch;
  }

  /** Request a send. Without a key, one is made for the attempts of this call. */
  send(body: SendRequest, idempotencyKey?: string): Promise<AcceptedBody> {
    return this.request("POST", "/v1/sends", { body, ...(idempotencyKey !== undefined && { idempotencyKey }) });
  }

  /**
   * Return the body of a route's response. A repetition has the same Idempotency-Key.
   *
   * Throws ApiError, or ConnectionError if the last attempt got no complete response.
   */
  async request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...[given]: Optional<Arguments<M, P> & CallOptions>
  ): Promise<Answer<M, P>> {
    const text = await this.#execute(method, path, given ?? {}, (response) => response.text());
    return read(text) as Answer<M, P>;
  }

  /**
   * Return a route's successful response with its body unread: for headers, streams and other types than JSON.
   *
   * Throws the errors of `request`. An error while the body is read is that of fetch.
   */
  response<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...[given]: Optional<Arguments<M, P> & CallOptions>
  ): Promise<Response> {
    return this.#execute(method, path, given ?? {}, (response) => response);
  }

  /** Yield the rows of a list, from all pages. */
  async *rows<P extends ListPath>(
    path: P,
    ...[given]: Optional<Arguments<"GET", P> & CallOptions>
  ): AsyncGenerator<Row<P>, void, undefined> {
    const { query, ...others }: Given = given ?? {};
    let cursor: string | null = null;
    do {
      const next: Given = { ...others, query: { ...query, cursor } };
      const text = await this.#execute("GET", path, next, (response) => response.text());
      const page = read(text) as { rows: Row<P>[]; next_cursor: string | null };
      yield* page.rows;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /**
   * Yield a send each time that it is read, until each of its notifications has ended.
   *
   * Throws ApiError if it is unknown for `unknownS` seconds, and a TimeoutError after `timeoutS` seconds.
   */
  async *follow(
    sendId: string,
    { timeoutS = 3_600, pollS = 1, unknownS = 30 }: FollowOptions = {},
  ): AsyncGenerator<SendBody, void, undefined> {
    const began = performance.now() / 1_000;
    for (;;) {
      let send: SendBody | null = null;
      try {
        send = await this.request("GET", "/v1/sends/{send_id}", { path: { send_id: sendId } });
      } catch (error) {
        const waitedS = performance.now() / 1_000 + pollS - began;
        if (!(error instanceof ApiError && error.status === 404 && waitedS <= unknownS)) throw error;
      }
      if (send !== null) {
        yield send;
        if (send.complete) return;
      }
      if (performance.now() / 1_000 + pollS > began + timeoutS) {
        throw new DOMException(`Send ${sendId} has not ended after ${timeoutS.toFixed(0)} s.`, "TimeoutError");
      }
      await this.#sleep(pollS);
    }
  }

  async #execute<T>(method: Method, route: string, given: Given, reading: Reading<T>): Promise<T> {
    const headers: Record<string, string> = { ...this.#headers, ...given.headers };
    if (method === "POST" && route in KEYED) headers[KEY] = given.idempotencyKey ?? crypto.randomUUID();
    const init: RequestInit = { method, headers, redirect: "manual" };
    if (given.body !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = writeJson(given.body);
    }
    const url = this.#url + pathOf(route, given.path ?? {}) + queryOf(given.query ?? {});
    const removed = REMOVED[`${method} ${route}`];
    let mayHaveActed = false;
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#attempt(new Request(url, init), given, reading);
      if ("value" in answer) return answer.value;
      if (removed !== undefined && mayHaveActed && "response" in answer && answer.response.status === 404) {
        return reading(new Response(writeJson(removed(given.path ?? {}))));
      }
      mayHaveActed ||= "response" in answer ? answer.response.status >= 500 : !wasNotSent(answer.error);
      const isLast = attempt >= this.#attempts;
      if ("response" in answer && (isLast || !mayPass(answer.response, KEY in headers))) {
        throw ApiError.of(answer.response, answer.text);
      }
      if ("error" in answer && isLast) throw new ConnectionError(answer.error);
      await until(this.#sleep(pauseS(attempt, answer)), given.signal);
    }
  }

  /** Throws the signal's reason. */
  async #attempt<T>(
    request: Request,
    { signal, timeoutS = this.#timeoutS }: Given,
    reading: Reading<T>,
  ): Promise<Attempt<T>> {
    const ends = [signal, timeoutS === null ? undefined : AbortSignal.timeout(timeoutS * 1_000)];
    const ending = AbortSignal.any(ends.filter((each) => each !== undefined));
    try {
      const response = await this.#fetch(request, { signal: ending });
      return response.ok ? { value: await reading(response) } : { response, text: await response.text() };
    } catch (error) {
      signal?.throwIfAborted();
      return { error };
    }
  }
}

/** Return the JSON value of a successful response. Another text is of a server that is not the API. */
function read(text: string): unknown {
  try {
    return readJson(text);
  } catch (error) {
    throw new ConnectionError(error);
  }
}

/** Wait for a promise. Throws the signal's reason once it is aborted. */
async function until(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  if (signal === undefined) return promise;
  await new Promise<void>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    promise.then(resolve, reject);
  });
}

const sleepFor = (seconds: number): Promise<void> => new Promise((done) => setTimeout(done, seconds * 1_000));

function pathOf(route: string, values: Readonly<Record<string, unknown>>): string {
  return route.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));
}

/** Return the query string. A list becomes one parameter for each of its values; null and undefined are left out. */
function queryOf(values: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) =>
    [value].flat().filter((each) => each !== null && each !== undefined).map((each) => [name, String(each)]),
  );
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}

/** Return whether the same request may succeed soon. A conflict (409) passes if it says when. */
function mayPass(response: Response, hasKey: boolean): boolean {
  const isFinal = response.status === 409 && !(hasKey && response.headers.has("Retry-After"));
  return PASSING.has(response.status) && !isFinal && (retryAfterS(response) ?? 0) <= LONGEST_PAUSE_S;
}

function wasNotSent(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return typeof cause === "object" && cause !== null && "code" in cause && NOT_SENT.has(String(cause.code));
}

/** Return the pause before the next attempt: Retry-After, else a random time that doubles its bound. */
function pauseS(attempt: number, answer: Attempt<unknown>): number {
  const given = "response" in answer ? retryAfterS(answer.response) : null;
  return given ?? Math.random() * Math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** attempt);
}
