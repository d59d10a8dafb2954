/** The request for a send: one at a time in this tab, even while another page is shown. */

import { ApiError, ConnectionError } from "masscomm-client";
import { requestSend } from "../api/client";
import type { AcceptedSend, SendRequest } from "../api/types";
import { forget, keep, kept, type KeptName } from "./kept";
import { repeatableKeys, type LastKey, type RepeatableKeys } from "./keys";

export interface Submission {
  answer: Promise<AcceptedSend>;
  /** Wait no longer. The send may have been accepted. */
  stop: () => void;
}

let running: Submission | null = null;

/** Return the request that is under way; null if there is none. */
export const underWay = (): Submission | null => running;

/** Return the keys of a person's requests. They are kept with the draft, so that a reload repeats no send. */
export function keysOf(person: string, name: KeptName = "send-key"): RepeatableKeys {
  return repeatableKeys({
    read: () => kept(name, person) as LastKey | null,
    write: (last) => (last ? keep(name, person, last) : forget(name)),
  });
}

/** Request a send; while another request is under way, return that one. An accepted send ends the person's draft. */
export function submit(request: SendRequest, person: string): Submission {
  if (running) return running;
  const controller = new AbortController();
  const answer = send(request, person, controller.signal).finally(() => (running = null));
  return (running = { answer, stop: () => controller.abort() });
}

async function send(request: SendRequest, person: string, signal: AbortSignal): Promise<AcceptedSend> {
  const accepted = await repeatable(request, keysOf(person), signal);
  forget("draft");
  return accepted;
}

/** Request a send under its key. The key is forgotten once it is known whether the send was accepted. */
export async function repeatable(request: SendRequest, keys: RepeatableKeys, signal?: AbortSignal): Promise<AcceptedSend> {
  const attempted = (await keys.attempted(request)) === "same";
  const key = await keys.of(request);
  try {
    const accepted = await requestSend(request, key, signal);
    keys.forget();
    return accepted;
  } catch (failure) {
    if (signal?.aborted) throw new ConnectionError("the answer was not awaited");
    // A refusal has no effect, but it does not say what became of an earlier attempt. Only a wrong body was never accepted.
    if (failure instanceof ApiError && (failure.status === 400 || (!attempted && failure.status < 500 && failure.status !== 409))) keys.forget();
    throw failure;
  }
}
