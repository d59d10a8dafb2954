/** JSON with integers of any size: JSON.parse rounds 9007199254740993 to 9007199254740992. */

import { parse, stringify } from "lossless-json";

/** The id of a user, club or device, an integer of 64 bits: a bigint if a number would round it. */
export type Id = number | bigint;

function numberOf(text: string): number | bigint {
  const number = Number(text);
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

/** Return the value of a JSON text. Throws SyntaxError. */
export const readJson = (text: string): unknown => parse(text, null, numberOf);

/** Return the JSON text of a value of which JSON has every part. */
export const writeJson = (value: unknown): string => stringify(value)!;
