import { ApiError, ConnectionError } from "masscomm-client";
import { apiText } from "./words";

/** A part of a notice: the key of a message, or a text of the API. */
export type NoticePart = { key: string } | { text: string };

/** Return whether an error is one of the page itself, and not of the API or the network. */
export const isOfPage = (error: unknown): boolean => !(error instanceof ApiError || error instanceof ConnectionError);

/**
 * Return what a notice says about an error: the API's text, that it did not answer, or that the page itself failed.
 *
 * @param live Whether the page makes further attempts by itself.
 */
export function messageOf(error: unknown, live: boolean): NoticePart[] {
  const again: NoticePart[] = live ? [{ key: "error.live" }] : [];
  if (error instanceof ConnectionError) return [{ key: "error.unreachable" }, ...again];
  if (!(error instanceof ApiError)) return [{ key: "error.internal" }, { text: String(error) }];
  if (error.status === 401) return [{ key: "signin.ended" }];
  const said = refusalOf(error).map((text) => ({ text }));
  return error.status === 403 ? [{ key: "error.forbidden" }, ...said] : [...said, ...(error.status >= 500 ? again : [])];
}

/** Return the texts of a problem: its detail, and the field and the reason of each error that the detail does not contain. */
function refusalOf({ status, problem, errors }: ApiError): string[] {
  const said = apiText(problem, problem.detail ?? problem.title ?? `HTTP ${status}`);
  const reasons = errors.map((error) => ({ field: error.field, reason: apiText(error, error.message) }));
  const further = reasons.filter(({ field, reason }) => !(said.includes(field) && said.includes(reason)));
  return [said, ...further.map(({ field, reason }) => (field ? `${field}: ${reason}` : reason))];
}
