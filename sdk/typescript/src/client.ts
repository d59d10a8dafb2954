/** The client: requests, their repetition, lists, and sends that are followed. */

import { ApiError, retryAfterS } from "./errors.js";
import { readJson, writeJson } from "./json.js";
import {
  KEYED,
  REMOVED,
  type AcceptedBody,
  type Answer,
  type Arguments,
  type ListPath,
  type Method,
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
interface Given {
  path?: Readonly<Record<string, unknown>>;
  query?: Readonly<Record<string, unknown>>;
  body?: unknown;
  idempotencyKey?: string;
}

/** A response with its text, or the error of an attempt without a response. */
type Attempt = { response: Response; text: string } | { error: unknown };

export class Client {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #attempts: number;
  readonly #timeoutS: number;
  readonly #sleep: (seconds: number) => Promise<void>;

  /** @param url The base URL. */
  constructor(url: string, { key, attempts = 4, timeoutS = 30, sleep = sleepFor }: ClientOptions) {
    if (attempts < 1) throw new RangeError("attempts must be at least 1");
    this.#url = url.replace(/\/$/, "");
    this.#headers = key === null ? {} : { "x-api-key": key };
    this.#attempts = attempts;
    this.#timeoutS = timeoutS;
    this.#sleep = sleep;
  }

  /** Request a send. Without a key, one is made for the attempts of this call. */
  send(body: SendRequest, idempotencyKey?: string): Promise<AcceptedBody> {
    return this.request("POST", "/v1/sends", { body, ...(idempotencyKey !== undefined && { idempotencyKey }) });
  }

  /**
   * Return the body of a route's response. A repetition has the same Idempotency-Key.
   *
   * Throws ApiError, or the error of fetch if the last attempt got no response.
   */
  async request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...[given]: Record<never, never> extends Arguments<M, P> ? [Arguments<M, P>?] : [Arguments<M, P>]
  ): Promise<Answer<M, P>> {
    return (await this.#execute(method, path, (given ?? {}) as Given)) as Answer<M, P>;
  }

  /** Yield the rows of a list, from all pages. */
  async *rows<P extends ListPath>(
    path: P,
    ...[given]: Record<never, never> extends Arguments<"GET", P> ? [Arguments<"GET", P>?] : [Arguments<"GET", P>]
  ): AsyncGenerator<Row<P>, void, undefined> {
    const { query, ...others } = (given ?? {}) as Given;
    let cursor: string | null = null;
    do {
      const body = await this.#execute("GET", path, { ...others, query: { ...query, cursor } });
      const page = body as { rows: Row<P>[]; next_cursor: string | null };
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

  async #execute(method: Method, route: string, given: Given): Promise<unknown> {
    const headers: Record<string, string> = { ...this.#headers };
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
      const answer = await this.#attempt(new Request(url, init));
      if ("response" in answer && answer.response.ok) return readJson(answer.text);
      if (removed !== undefined && mayHaveActed && "response" in answer && answer.response.status === 404) {
        return removed(given.path ?? {});
      }
      mayHaveActed ||= "response" in answer ? answer.response.status >= 500 : !wasNotSent(answer.error);
      const isLast = attempt >= this.#attempts;
      if ("response" in answer && (isLast || !mayPass(answer.response, KEY in headers))) {
        throw ApiError.of(answer.response, answer.text);
      }
      if ("error" in answer && isLast) throw answer.error;
      await this.#sleep(pauseS(attempt, answer));
    }
  }

  async #attempt(request: Request): Promise<Attempt> {
    try {
      const response = await fetch(request, { signal: AbortSignal.timeout(this.#timeoutS * 1_000) });
      return { response, text: await response.text() };
    } catch (error) {
      return { error };
    }
  }
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
function pauseS(attempt: number, answer: Attempt): number {
  const given = "response" in answer ? retryAfterS(answer.response) : null;
  return given ?? Math.random() * Math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** attempt);
}
