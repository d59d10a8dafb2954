/** The errors of the client. */

import { readJson } from "./json.js";
import type { components } from "./schema.js";

/** An invalid field of a request. */
export type FieldError = components["schemas"]["FieldErrorBody"];
/** Problem details (RFC 9457). By the code of the detail and its parameters, a program can translate it. */
export type Problem = components["schemas"]["ProblemBody"];

/** The last attempt got no complete response. Its `cause` is the error of fetch, or that of a text without JSON. */
export class ConnectionError extends TypeError {
  override readonly name = "ConnectionError";

  constructor(cause: unknown) {
    super(String(cause), { cause });
  }
}

/** The API refused a request, or could not execute it in any attempt. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  /**
   * @param status The HTTP status.
   * @param detail One sentence, as the API returned it.
   * @param errors The invalid fields.
   * @param retryAfterS The seconds after which the request may succeed; null if the response has none.
   * @param problem The problem details; empty if the response has none, as that of a proxy.
   */
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly errors: FieldError[],
    readonly retryAfterS: number | null = null,
    readonly problem: Partial<Problem> = {},
  ) {
    // The detail of a request with one wrong field has both.
    const further = errors
      .filter(({ field, message }) => !detail.includes(field) || !detail.includes(message))
      .map(({ field, message }) => `${field} ${message}`.trim());
    super(`${status}: ${[detail, ...further].join("; ")}`);
  }

  /** Return the error in a response. */
  static of(response: Response, text: string): ApiError {
    const problem = problemIn(text);
    const detail = problem === null ? text.slice(0, 500) : String(problem.detail ?? response.statusText);
    return new ApiError(response.status, detail, problem?.errors ?? [], retryAfterS(response), problem ?? {});
  }
}

/** Return the seconds in Retry-After; null if the response has none. */
export function retryAfterS(response: Response): number | null {
  const given = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(given) ? Number(given) : null;
}

function problemIn(text: string): Partial<Problem> | null {
  try {
    const value = readJson(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
