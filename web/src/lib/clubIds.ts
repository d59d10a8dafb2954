/** Return the ids in a text with commas between them; null if a part of it is no id. */
export function clubIdsIn(text: string): number[] | null {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
  const ids = parts.map(Number);
  return parts.every((part) => /^\d+$/.test(part)) && ids.every(Number.isSafeInteger) ? ids : null;
}
