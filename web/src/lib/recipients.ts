/** Recipients as a person writes or pastes them. */

import type { Id } from "masscomm-client";
import { idOf, idsBetween } from "./ids";

export const MAX_RECIPIENTS = 500_000;

export interface Recipients {
  /** The distinct user ids, in the order of their first occurrence. */
  ids: Id[];
  duplicates: number;
  /** Parts of the text that are not user ids, at most twenty. */
  invalid: string[];
  /** Whether the text names more than MAX_RECIPIENTS users; `ids` then has only the first ones. */
  tooMany: boolean;
}

/** Return the first and the last user of a user id or a range of them; null of another text. */
function rangeOf(text: string): [first: Id, last: Id] | null {
  if (!/^\d+(-\d+)?$/.test(text)) return null;
  const [first, last = first] = text.split("-").map(idOf);
  return first && last && first <= last ? [first, last] : null;
}

/** Return whether a text is a user id or a range of them. */
export const isRecipient = (text: string): boolean => rangeOf(text) !== null;

/**
 * Read user ids and ranges ("1-500") that are separated by white space, commas or semicolons. lib/tables.ts has tables
 * with further columns.
 */
export function parseRecipients(text: string): Recipients {
  const seen = new Set<Id>();
  const invalid: string[] = [];
  let duplicates = 0;
  let tooMany = false;
  const add = (id: Id): boolean => {
    if (seen.has(id)) {
      duplicates += 1;
    } else if (seen.size >= MAX_RECIPIENTS) {
      tooMany = true;
    } else {
      seen.add(id);
    }
    return !tooMany;
  };
  for (const part of text.split(/[\s,;]+/)) {
    if (!part) continue;
    const range = rangeOf(part);
    if (!range) {
      if (invalid.length < 20) invalid.push(part.slice(0, 40));
      continue;
    }
    for (const id of idsBetween(...range)) if (!add(id)) break;
    if (tooMany) break;
  }
  return { ids: [...seen], duplicates, invalid, tooMany };
}
