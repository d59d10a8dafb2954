/** Values that this tab keeps for one person, until the person signs out or the tab is closed. */
import { readJson, writeJson } from "masscomm-client";


const NAMES = ["draft", "own-user", "send-key", "test-key"] as const;
export type KeptName = (typeof NAMES)[number];
const stored = (name: KeptName): string => `masscomm.${name}`;

/** Keep a value in place of the earlier one. A value that does not fit removes the earlier one. */
export function keep(name: KeptName, person: string, value: unknown): void {
  try {
    sessionStorage.setItem(stored(name), writeJson({ person, value }));
  } catch {
    // A draft with very many recipients does not fit. An earlier draft must not take its place.
    forget(name);
  }
}

/** Return the value that this person kept, else null. */
export function kept(name: KeptName, person: string): unknown {
  const text = sessionStorage.getItem(stored(name));
  if (text === null) return null;
  const found = readJson(text) as { person?: string; value?: unknown };
  return found.person === person ? (found.value ?? null) : null;
}

export function forget(name: KeptName): void {
  sessionStorage.removeItem(stored(name));
}

/** Forget everything that was kept for the person who signs out. */
export function forgetAll(): void {
  NAMES.forEach(forget);
}
