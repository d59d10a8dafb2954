/** JSON with integers of any size: the browser's own JSON rounds 9007199254740993 to 9007199254740992. */

import { parse, stringify } from "lossless-json";

/** Return the number that a text writes: a bigint if it is an integer that a number would round. */
export function numberOf(text: string): number | bigint {
  const number = Number(text);
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(number) ? BigInt(text) : number;
}

/** Return the value of a JSON text. Raises SyntaxError. */
export const readJson = (text: string): unknown => parse(text, null, numberOf);

/** Return the JSON text of a value of which JSON has every part. */
export const writeJson = (value: unknown, space?: number): string => stringify(value, null, space)!;
