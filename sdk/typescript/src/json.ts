/** JSON with integers of any size: JSON.parse rounds 9007199254740993 to 9007199254740992. */

import { parse, stringify } from "lossless-json";

/** The id of a user, club or device, an integer of 64 bits: a bigint if a number would round it. */
export type Id = number | bigint;

/** Return the number that a text writes: a bigint if it is an integer that a number would round. */
export function numberOf(text: string): number | bigint {
  const number = Number(text);
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

/** Return the value of a JSON text. Throws SyntaxError. */
export const readJson = (text: string): unknown => parse(text, null, numberOf);

/**
 * Return the JSON text of a value of which JSON has every part.
 *
 * @param space The spaces of each level; without it, the text is one line.
 */
export const writeJson = (value: unknown, space?: number): string => stringify(value, null, space)!;
