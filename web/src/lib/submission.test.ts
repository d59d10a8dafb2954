import { ApiError, ConnectionError } from "masscomm-client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import * as client from "../api/client";
import type { AcceptedSend, SendRequest } from "../api/types";
import { keep, kept } from "./kept";
import { keysOf, submit, underWay } from "./submission";

vi.mock("../api/client", () => ({ requestSend: vi.fn() }));

const requested = vi.mocked(client.requestSend);
const SEND: SendRequest = { type: "news", club_id: 1, to_users: [42] };
const ACCEPTED = { send_id: "s", status: "accepted", requested: 1, duplicates: 0, links: {} } as unknown as AcceptedSend;
const keys = (): string[] => requested.mock.calls.map(([, key]) => key);
const attempt = (request: SendRequest = SEND): Promise<unknown> => submit(request, "ada").answer.catch((failure: unknown) => failure);

beforeEach(() => {
  const stored = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, text: string) => stored.set(name, text),
    removeItem: (name: string) => stored.delete(name),
  });
  requested.mockReset();
  requested.mockResolvedValue(ACCEPTED);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test.each([new ConnectionError("lost"), new ApiError(503, "away", [], 1), new ApiError(409, "in progress", [], 1)])(
  "an attempt after %s has the same key",
  async (failure) => {
    requested.mockRejectedValueOnce(failure);
    expect(await attempt()).toBe(failure);
    expect(await keysOf("ada").attempted(SEND)).toBe("same");
    expect(await attempt()).toBe(ACCEPTED);
    expect(keys()[1]).toBe(keys()[0]);
  },
);

test("changed content after a lost answer has a new key, and is another send", async () => {
  requested.mockRejectedValueOnce(new ConnectionError("lost"));
  await attempt();
  const changed = { ...SEND, to_users: [42, 43] };
  expect(await keysOf("ada").attempted(changed)).toBe("other");
  await attempt(changed);
  expect(keys()[1]).not.toBe(keys()[0]);
});

test("the same send after an accepted one is another send", async () => {
  keep("draft", "ada", { title: "x" });
  await attempt();
  expect([kept("draft", "ada"), await keysOf("ada").attempted(SEND)]).toEqual([null, null]);
  await attempt();
  expect(keys()[1]).not.toBe(keys()[0]);
});

test("a refusal leaves no doubt, except after a lost answer", async () => {
  requested.mockRejectedValueOnce(new ApiError(403, "no", [], null));
  await attempt();
  expect(await keysOf("ada").attempted(SEND)).toBeNull();
  requested.mockRejectedValueOnce(new ConnectionError("lost")).mockRejectedValueOnce(new ApiError(429, "slow", [], 1));
  await attempt();
  await attempt();
  expect(await keysOf("ada").attempted(SEND)).toBe("same");
  requested.mockRejectedValueOnce(new ApiError(400, "wrong", [], null));
  await attempt();
  expect(await keysOf("ada").attempted(SEND)).toBeNull();
});

test("a second click and another page get the request that is under way", async () => {
  let accept!: (accepted: AcceptedSend) => void;
  requested.mockImplementationOnce(() => new Promise((resolve) => (accept = resolve)));
  const first = submit(SEND, "ada");
  expect([submit(SEND, "ada"), underWay()]).toEqual([first, first]);
  await vi.waitFor(() => expect(requested).toHaveBeenCalledOnce());
  accept(ACCEPTED);
  expect(await first.answer).toBe(ACCEPTED);
  expect(underWay()).toBeNull();
});

test("a request that is no longer awaited may have been accepted", async () => {
  requested.mockImplementationOnce((_body, _key, signal) => new Promise((_resolve, reject) => signal!.addEventListener("abort", () => reject(signal!.reason))));
  const submission = submit(SEND, "ada");
  const ended = submission.answer.catch((failure: unknown) => failure);
  await vi.waitFor(() => expect(requested).toHaveBeenCalledOnce());
  submission.stop();
  expect(await ended).toBeInstanceOf(ConnectionError);
  expect(await keysOf("ada").attempted(SEND)).toBe("same");
});
