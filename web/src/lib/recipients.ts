/** Recipients as a person writes or pastes them. */

export const MAX_RECIPIENTS = 500_000;

export interface Recipients {
  /** The distinct user ids, in the order of their first occurrence. */
  ids: number[];
  duplicates: number;
  /** Parts of the text that are no user id, at most twenty. */
  invalid: string[];
  /** Whether the text names more than MAX_RECIPIENTS users; `ids` then has only the first ones. */
  tooMany: boolean;
}

const RECIPIENT = /^(\d{1,15})(?:-(\d{1,15}))?$/;

/** Return whether a text is a user id or a range of them. */
export const isRecipient = (text: string): boolean => RECIPIENT.test(text) && Number.parseInt(text, 10) >= 1;

/**
 * Read user ids and ranges ("1-500") that are separated by white space, commas or semicolons. lib/tables.ts has tables
 * with further columns.
 */
export function parseRecipients(text: string): Recipients {
  const seen = new Set<number>();
  const invalid: string[] = [];
  let duplicates = 0;
  let tooMany = false;
  const add = (id: number): boolean => {
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
    const found = RECIPIENT.exec(part);
    const first = Number(found?.[1]);
    const last = found?.[2] === undefined ? first : Number(found[2]);
    if (!found || first < 1 || last < first) {
      if (invalid.length < 20) invalid.push(part.slice(0, 40));
      continue;
    }
    for (let id = first; id <= last; id += 1) if (!add(id)) break;
    if (tooMany) break;
  }
  return { ids: [...seen], duplicates, invalid, tooMany };
}
