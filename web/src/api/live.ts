import { ApiError, ConnectionError, readJson } from "masscomm-client";
import { onScopeDispose, ref, type Ref } from "vue";
import { awaitCounts, awaitUser, bodyOf, EVENT_STREAM, openSendEvents } from "./client";
import { EventReader } from "./events";
import type { Preferences, Send, SendEvent, User } from "./types";

export interface Live {
  error: Ref<unknown>;
  restart: () => void;
}

/** The time in which a stream has its first bytes. A proxy that collects the response passes none on. */
export const FIRST_BYTES_MS = 5_000;
/**
 * The time without a byte after which a stream is opened again. The gateway writes a comment each ten seconds; after sleep
 * or a change of the network, a connection can be silent without an error.
 */
export const IDLE_MS = 35_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** The longest pause before a send or a user that is unknown is asked for again. */
const LONGEST_ABSENCE_MS = 10_000;

/**
 * Wait for the server once, and show its answer; `answered` removes an error that is shown. Returns the pause before the
 * next call in milliseconds; null if no more is needed.
 */
type Step = (signal: AbortSignal, answered: () => void) => Promise<number | null>;

/**
 * Call `refresh` now and after each batch that the metrics job counts, by long polls, until it returns false or the
 * component is closed.
 */
export function useLive(refresh: (signal: AbortSignal) => Promise<boolean>): Live {
  return useConnection(() => {
    let cursor: string | null = null;
    return async (signal, answered) => {
      const position = await awaitCounts(cursor, signal);
      if (position.changed || cursor === null) {
        const goOn = await refresh(signal);
        answered();
        if (!goOn) return null;
      }
      cursor = position.cursor;
      return 0;
    };
  });
}

/** Call `refresh` now and `everyMs` after each answer, until the component is closed. */
export function usePolled(refresh: (signal: AbortSignal) => Promise<void>, everyMs: number): Live {
  return useConnection(() => async (signal, answered) => {
    await refresh(signal);
    answered();
    return everyMs;
  });
}

/**
 * Call `show` with the send now and after each change until it has ended or the component is closed: by server-sent
 * events, or by long polls where the server or a proxy does not stream. A send that is unknown is shown as null.
 */
export function useSend(sendId: string, show: (send: Send | null) => void): Live {
  let poll = false;
  return useConnection(() => {
    let after: string | null = null;
    let absences = 0;
    return async (signal, answered) => {
      const take = (event: SendEvent): number | null => {
        if (event.send) show(event.send);
        answered();
        after = event.version;
        absences = 0;
        return event.complete ? null : 0;
      };
      const silent = new AbortController();
      let began = false;
      let timer = poll ? undefined : setTimeout(() => silent.abort(), FIRST_BYTES_MS);
      const hear = (): void => {
        began = true;
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), IDLE_MS);
      };
      try {
        const response = await openSendEvents(sendId, after, poll, AbortSignal.any([signal, silent.signal]));
        if (response.status === 204) return null;
        if (response.headers.get("Content-Type")?.startsWith(EVENT_STREAM)) {
          return await readEvents(response, hear, take);
        }
        poll = true;
        return take(await bodyOf<SendEvent>(response));
      } catch (failure) {
        if (silent.signal.aborted && !signal.aborted) {
          poll = !began;
          return 0;
        }
        absences += 1;
        const pauseMs = absencePause(failure, absences);
        show(null);
        answered();
        return pauseMs;
      } finally {
        clearTimeout(timer);
      }
    };
  });
}

/**
 * Call `show` with the user that `userId` returns now and after each change, by long polls, until the component is closed.
 * A user that is unknown is shown as null. Without an id, nothing is asked.
 */
export function useUser(userId: () => string, show: (found: { user: User; preferences: Preferences } | null) => void): Live {
  return useConnection(() => {
    const id = userId();
    let after: string | null = null;
    let absences = 0;
    return async (signal, answered) => {
      if (!id) return null;
      try {
        const { version, user, preferences } = await awaitUser(id, after, signal);
        if (signal.aborted) return null;
        if (user && preferences) show({ user, preferences });
        answered();
        [after, absences] = [version, 0];
        return 0;
      } catch (failure) {
        absences += 1;
        const pauseMs = absencePause(failure, absences);
        after = null;
        show(null);
        answered();
        return pauseMs;
      }
    };
  });
}

/** Return the pause before the next request for what is unknown, in milliseconds. Any other failure is thrown. */
function absencePause(failure: unknown, absences: number): number {
  if (!(failure instanceof ApiError && failure.status === 404)) throw failure;
  return Math.min(LONGEST_ABSENCE_MS, absences * 1_000);
}

/** A connection that breaks during the answer is one that cannot be reached. */
function lost(failure: unknown): never {
  throw new ConnectionError(failure);
}

/**
 * Read a stream to its end; `hear` is called with each piece of it. Returns the pause before the next connection; null if no
 * more is needed.
 */
async function readEvents(response: Response, hear: () => void, take: (event: SendEvent) => number | null): Promise<number | null> {
  const events = new EventReader();
  const pieces = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await pieces.read().catch(lost);
    // The server ends a stream early when it stops, or when the caller has too many.
    if (done) return events.retryMs ?? nextPause(0, null);
    hear();
    for (const event of events.push(value)) {
      if (take(readJson(event.data) as SendEvent) !== null) continue;
      await pieces.cancel();
      return null;
    }
  }
}

/**
 * Repeat the steps of a connection until no more is needed or the component is closed. While the page is hidden, there
 * is not a connection. `begin` returns the step of a new connection.
 */
function useConnection(begin: () => Step): Live {
  const error = ref<unknown>(null);
  let controller = new AbortController();
  let closed = false;

  async function run(step: Step, signal: AbortSignal): Promise<void> {
    let pauseMs = 0;
    while (!signal.aborted) {
      await visible(signal);
      if (signal.aborted) return;
      const shown = untilHidden(signal);
      try {
        const next = await step(shown.signal, () => (error.value = null));
        if (next === null) return;
        pauseMs = 0;
        await pause(next, signal);
      } catch (failure) {
        if (signal.aborted) return;
        if (shown.signal.aborted) continue;
        error.value = failure;
        if (failure instanceof ApiError && [400, 401, 403].includes(failure.status)) return;
        pauseMs = nextPause(pauseMs, failure);
        await pause(pauseMs, signal);
      } finally {
        shown.end();
      }
    }
  }

  function restart(): void {
    // The answer to a request arrives after its page was left.
    if (closed) return;
    controller.abort();
    controller = new AbortController();
    void run(begin(), controller.signal);
  }

  onScopeDispose(() => {
    closed = true;
    controller.abort();
  });
  restart();
  return { error, restart };
}

/** Return the pause before the next attempt, in milliseconds: the server's Retry-After, or twice the last pause. */
export function nextPause(lastMs: number, error: unknown): number {
  if (error instanceof ApiError && error.retryAfterS !== null) return error.retryAfterS * 1_000;
  return Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, lastMs * 2));
}

/** Wait for a time, or until the computer is online again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      window.removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    window.addEventListener("online", end);
    signal.addEventListener("abort", end, { once: true });
  });
}

function visible(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const check = (): void => {
      if (document.visibilityState !== "visible" && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, { once: true });
  });
}

/** Return a signal that is aborted with `signal` and when the page is hidden. `end` stops the observation. */
function untilHidden(signal: AbortSignal): { signal: AbortSignal; end: () => void } {
  const hidden = new AbortController();
  const check = (): void => {
    if (document.visibilityState !== "visible") hidden.abort();
  };
  document.addEventListener("visibilitychange", check);
  return { signal: AbortSignal.any([signal, hidden.signal]), end: () => document.removeEventListener("visibilitychange", check) };
}
