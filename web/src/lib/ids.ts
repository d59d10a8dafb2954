/** Ids of users, clubs and devices as a person writes them and as the API has them: integers of 64 bits. */
import { numberOf, type Id } from "masscomm-client";


export const LARGEST_ID = 2n ** 63n - 1n;

/** Return whether a value of an answer is an id. */
export const isId = (value: unknown): value is Id =>
  (typeof value === "bigint" || Number.isSafeInteger(value)) && (value as Id) >= 1 && (value as Id) <= LARGEST_ID;

/** Return the id that a text writes; null if it writes none. */
export function idOf(text: string): Id | null {
  const id = /^\d+$/.test(text.trim()) ? numberOf(text.trim()) : null;
  return isId(id) ? id : null;
}

/** Return the ids in a text with commas between them; null if a part of it is not an id. */
export function idsOf(text: string): Id[] | null {
  const ids = text.split(",").filter((part) => part.trim()).map(idOf);
  return ids.every(isId) ? ids : null;
}

/** Yield each id of a range, both ends included. */
export function* idsBetween(first: Id, last: Id): Generator<Id> {
  for (let id = first; id <= last; id = typeof id === "number" && id < Number.MAX_SAFE_INTEGER ? id + 1 : BigInt(id) + 1n) yield id;
}
