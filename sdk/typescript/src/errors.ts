/** The error of the client. Connection errors and time-outs are those of fetch. */

import { readJson } from "./json.js";

/** An invalid field of a request. */
export interface FieldError {
  field: string;
  message: string;
}

/** The API refused a request, or could not execute it in any attempt. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  /**
   * @param status The HTTP status.
   * @param detail One sentence, as the API returned it.
   * @param errors The invalid fields.
   * @param retryAfterS The seconds after which the request may succeed; null if the response has none.
   */
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly errors: FieldError[],
    readonly retryAfterS: number | null = null,
  ) {
    // The detail of a request with one wrong field has both.
    const further = errors
      .filter(({ field, message }) => !detail.includes(field) || !detail.includes(message))
      .map(({ field, message }) => `${field} ${message}`.trim());
    super(`${status}: ${[detail, ...further].join("; ")}`);
  }

  /** Return the error in a response. */
  static of(response: Response, text: string): ApiError {
    const problem = problemIn(text) ?? { detail: text.slice(0, 500) };
    const detail = String(problem.detail ?? response.statusText);
    return new ApiError(response.status, detail, problem.errors ?? [], retryAfterS(response));
  }
}

/** Return the seconds in Retry-After; null if the response has none. */
export function retryAfterS(response: Response): number | null {
  const given = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(given) ? Number(given) : null;
}

function problemIn(text: string): { detail?: unknown; errors?: FieldError[] } | null {
  try {
    const value = readJson(text);
    return typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
