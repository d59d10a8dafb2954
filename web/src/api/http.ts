import type { Id } from "../lib/ids";
import { readJson } from "../lib/json";
import type { CodedBody, FieldError } from "./types";

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/** An error that the API returned as problem details (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly errors: FieldError[],
    readonly retryAfterS: number | null,
    /** The code of the detail and the values in it. */
    readonly text: CodedBody = {},
  ) {
    super(detail);
  }
}

/** The API could not be reached, did not answer in time, or its response is not readable. */
export class Unreachable extends Error {}

/** Return whether it is unknown if a request had an effect: its answer was lost, or the server failed. */
export const isLost = (failure: unknown): boolean => failure instanceof Unreachable || (failure instanceof Problem && failure.status >= 500);

/** Return the JSON body of a response. An answer that breaks off, or is not JSON, is one of an API that cannot be reached. */
export async function bodyOf<T>(response: Response): Promise<T> {
  try {
    return readJson(await response.text()) as T;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable(String(error));
  }
}

export type Query = Record<string, string | Id | readonly (string | Id)[] | null | undefined>;

/** Return the query part of an address; values that are empty or missing are left out. */
export function queryText(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") parameters.append(name, String(each));
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

/** Return the pause before the next attempt, in milliseconds: the server's Retry-After, or twice the last pause. */
export function nextPause(lastMs: number, error: unknown): number {
  if (error instanceof Problem && error.retryAfterS !== null) return error.retryAfterS * 1_000;
  return Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, lastMs * 2));
}
