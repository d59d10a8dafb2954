import { ApiError, ConnectionError } from "masscomm-client";
import { effectScope, type EffectScope } from "vue";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import * as client from "./client";
import { FIRST_BYTES_MS, IDLE_MS, nextPause, useSend, useUser, type Live } from "./live";
import type { Send } from "./types";

vi.mock("./session", () => ({}));
vi.mock("./client", async (original) => ({
  ...(await original<typeof client>()),
  openSendEvents: vi.fn(),
  awaitCounts: vi.fn(),
  awaitUser: vi.fn(),
}));

const opened = vi.mocked(client.openSendEvents);
const page = Object.assign(new EventTarget(), { visibilityState: "visible" });
let scope: EffectScope;
let shown: (Send | null)[];

const body = (version: string, complete = false) => ({ version, changed: true, complete, send: { requested: Number(version) } });
const answer = (version: string, complete = false): Response =>
  new Response(JSON.stringify(body(version, complete)), { headers: { "Content-Type": "application/json" } });

/** A stream to which a test writes; it is aborted with the request. */
class Stream {
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  readonly response = new Response(new ReadableStream({ start: (controller) => void (this.#controller = controller) }), {
    headers: { "Content-Type": "text/event-stream; charset=utf-8" },
  });

  opened(signal: AbortSignal): Promise<Response> {
    signal.addEventListener("abort", () => this.#controller.error(new DOMException("aborted", "AbortError")));
    return Promise.resolve(this.response);
  }

  write(text: string): void {
    this.#controller.enqueue(new TextEncoder().encode(text));
  }

  event(version: string, complete = false): void {
    this.write(`id: ${version}\ndata: ${JSON.stringify(body(version, complete))}\n\n`);
  }

  end(): void {
    this.#controller.close();
  }
}

function follow(): Live {
  return scope.run(() => useSend("s", (send) => shown.push(send)))!;
}

/** Let streams and promises proceed, and `ms` milliseconds pass. */
const settle = (ms = 0): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const calls = (): [after: string | null, poll: boolean][] => opened.mock.calls.map(([, after, poll]) => [after, poll]);

function hide(state: "hidden" | "visible"): void {
  page.visibilityState = state;
  page.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", page);
  page.visibilityState = "visible";
  scope = effectScope();
  shown = [];
  opened.mockReset();
  opened.mockImplementation(() => new Promise(() => {}));
});
afterEach(() => {
  scope.stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("each event is shown until the send has ended", async () => {
  const stream = new Stream();
  opened.mockImplementationOnce((_id, _after, _poll, signal) => stream.opened(signal));
  follow();
  await settle();
  stream.event("1");
  await settle(IDLE_MS - 1);
  stream.event("2", true);
  await settle(60_000);
  expect(shown.map((send) => send?.requested)).toEqual([1, 2]);
  expect(calls()).toEqual([[null, false]]);
});

test("a stream that ends early is resumed after its last event, when the server says", async () => {
  const stream = new Stream();
  opened.mockImplementationOnce((_id, _after, _poll, signal) => stream.opened(signal));
  const live = follow();
  await settle();
  stream.event("1");
  stream.write("retry: 7000\n\n");
  stream.end();
  await settle(6_999);
  expect(opened).toHaveBeenCalledOnce();
  await settle(1);
  expect(calls()).toEqual([[null, false], ["1", false]]);
  expect(live.error.value).toBeNull();
});

test("an answer in JSON is followed by long polls", async () => {
  opened.mockResolvedValueOnce(answer("1")).mockResolvedValueOnce(answer("2", true));
  follow();
  await settle(60_000);
  expect(shown.map((send) => send?.requested)).toEqual([1, 2]);
  expect(calls()).toEqual([[null, false], ["1", true]]);
});

test("a stream without bytes is followed by long polls", async () => {
  const silent = new Stream();
  opened.mockImplementationOnce((_id, _after, _poll, signal) => silent.opened(signal)).mockResolvedValueOnce(answer("1", true));
  follow();
  await settle(FIRST_BYTES_MS - 1);
  expect(opened).toHaveBeenCalledOnce();
  await settle(1);
  expect(calls()).toEqual([[null, false], [null, true]]);
  expect(shown.map((send) => send?.requested)).toEqual([1]);
});

test("comments keep a stream open, and a silent one is opened again", async () => {
  const [silent, next] = [new Stream(), new Stream()];
  for (const stream of [silent, next]) opened.mockImplementationOnce((_id, _after, _poll, signal) => stream.opened(signal));
  const live = follow();
  await settle();
  silent.event("1");
  for (let heartbeat = 0; heartbeat < 10; heartbeat += 1) {
    await settle(IDLE_MS - 1);
    silent.write(": no change\n\n");
  }
  await settle(IDLE_MS - 1);
  expect(opened).toHaveBeenCalledOnce();
  await settle(1);
  expect(calls()).toEqual([[null, false], ["1", false]]);
  next.event("2", true);
  await settle();
  expect([shown.map((send) => send?.requested), live.error.value]).toEqual([[1, 2], null]);
});

test("a stream that breaks is no error of the page, and is opened again", async () => {
  const broken = new Stream();
  const dropped = new AbortController();
  opened.mockImplementationOnce(() => broken.opened(dropped.signal)).mockResolvedValueOnce(answer("2", true));
  const live = follow();
  await settle();
  broken.event("1");
  await settle();
  dropped.abort();
  await settle();
  expect(live.error.value).toBeInstanceOf(ConnectionError);
  await settle(60_000);
  expect([shown.map((send) => send?.requested), live.error.value]).toEqual([[1, 2], null]);
});

test("a hidden page has no connection, and continues after its last event", async () => {
  const stream = new Stream();
  opened.mockImplementationOnce((_id, _after, _poll, signal) => stream.opened(signal));
  const live = follow();
  await settle();
  stream.event("1");
  await settle();
  hide("hidden");
  await settle(60_000);
  expect(opened.mock.calls[0]![3].aborted).toBe(true);
  expect(opened).toHaveBeenCalledOnce();
  hide("visible");
  await settle();
  expect(calls()).toEqual([[null, false], ["1", false]]);
  expect(live.error.value).toBeNull();
});

test("a send that is not known yet is asked for again", async () => {
  opened.mockRejectedValueOnce(new ApiError(404, "unknown", [], null)).mockResolvedValueOnce(answer("1", true));
  const live = follow();
  await settle();
  expect([shown, live.error.value]).toEqual([[null], null]);
  await settle(1_000);
  expect(shown[1]?.requested).toBe(1);
});

test("a caller without permission is not asked again", async () => {
  opened.mockRejectedValueOnce(new ApiError(403, "no", [], null));
  const live = follow();
  await settle(60_000);
  expect(live.error.value).toBeInstanceOf(ApiError);
  expect(opened).toHaveBeenCalledOnce();
});

test("a computer that is online again is connected at once", async () => {
  opened.mockRejectedValueOnce(new ConnectionError("offline")).mockResolvedValueOnce(answer("1", true));
  const live = follow();
  await settle();
  expect(live.error.value).toBeInstanceOf(ConnectionError);
  page.dispatchEvent(new Event("online"));
  await settle();
  expect([shown[0]?.requested, live.error.value]).toEqual([1, null]);
});

test("a closed component has no connection", async () => {
  const stream = new Stream();
  opened.mockImplementationOnce((_id, _after, _poll, signal) => stream.opened(signal));
  follow();
  await settle();
  scope.stop();
  await settle(60_000);
  expect(opened.mock.calls[0]![3].aborted).toBe(true);
  expect(opened).toHaveBeenCalledOnce();
});

test("an answer that arrives after its component was closed opens no connection", async () => {
  const live = follow();
  await settle();
  scope.stop();
  live.restart();
  await settle(60_000);
  expect(opened).toHaveBeenCalledOnce();
});

test("pauses double up to their limit", () => {
  expect([0, 1_000, 16_000, 30_000].map((last) => nextPause(last, new Error()))).toEqual([1_000, 2_000, 30_000, 30_000]);
});

test("the server's Retry-After is respected", () => {
  expect(nextPause(1_000, new ApiError(429, "busy", [], 5))).toBe(5_000);
});

const awaited = vi.mocked(client.awaitUser);
const never = new Promise<never>(() => {});
const unknown = new ApiError(404, "unknown", [], null);
/** The answer of a long poll for a user: changed to a name, or unchanged. */
const userAnswer = (version: string, first_name?: string) =>
  ({ version, changed: first_name !== undefined, user: first_name ? { first_name } : null, preferences: first_name ? {} : null }) as never;

function followUser(id: () => string): { live: Live; names: (string | null)[] } {
  const names: (string | null)[] = [];
  const live = scope.run(() => useUser(id, (found) => names.push(found && found.user.first_name)))!;
  return { live, names };
}

test("a user is shown now and after each change", async () => {
  awaited.mockReset().mockResolvedValueOnce(userAnswer("1", "Ada")).mockResolvedValueOnce(userAnswer("1")).mockResolvedValueOnce(userAnswer("2", "Eve")).mockReturnValue(never);
  const { names } = followUser(() => "42");
  await settle();
  expect(names).toEqual(["Ada", "Eve"]);
  expect(awaited.mock.calls.map(([id, after]) => [id, after])).toEqual([["42", null], ["42", "1"], ["42", "1"], ["42", "2"]]);
});

test("an unknown user is asked for again", async () => {
  awaited.mockReset().mockResolvedValueOnce(userAnswer("1", "Ada")).mockRejectedValueOnce(unknown).mockResolvedValueOnce(userAnswer("2", "Ada")).mockReturnValue(never);
  const { live, names } = followUser(() => "42");
  await settle();
  expect([names, live.error.value]).toEqual([["Ada", null], null]);
  await settle(1_000);
  expect(names).toEqual(["Ada", null, "Ada"]);
  expect(awaited.mock.calls[2]![1]).toBeNull();
});

test("another user is followed from its first version", async () => {
  awaited.mockReset().mockResolvedValueOnce(userAnswer("1", "Ada")).mockReturnValueOnce(never).mockResolvedValueOnce(userAnswer("9", "Eve")).mockReturnValue(never);
  let id = "";
  const { live, names } = followUser(() => id);
  await settle();
  expect(awaited).not.toHaveBeenCalled();
  id = "42";
  live.restart();
  await settle();
  id = "43";
  live.restart();
  await settle();
  expect(names).toEqual(["Ada", "Eve"]);
  expect(awaited.mock.calls[2]!.slice(0, 2)).toEqual(["43", null]);
});
