/** Idempotency keys: one for each content, so that a repeated request is executed once (docs/api.md). */

import { writeJson } from "masscomm-client";
import { sha256 } from "./digest";

/** The key of the last attempted request, and the digest of that request. */
export interface LastKey {
  digest: string;
  key: string;
}

/** The place in which the last key is kept. */
export interface KeyPlace {
  read: () => LastKey | null;
  write: (last: LastKey | null) => void;
}

export interface RepeatableKeys {
  /** Return the key of a request: the last one if the request is the last one, else a new one. */
  of: (body: unknown) => Promise<string>;
  /** Return whether a request without a known answer has this body, or another one; null if there is no such request. */
  attempted: (body: unknown) => Promise<"same" | "other" | null>;
  /** Forget the last request, because its answer is known. */
  forget: () => void;
}

function inMemory(): KeyPlace {
  let last: LastKey | null = null;
  return { read: () => last, write: (value) => (last = value) };
}

export function repeatableKeys(place: KeyPlace = inMemory(), random: () => string = () => crypto.randomUUID()): RepeatableKeys {
  return {
    async of(body) {
      const digest = await sha256(writeJson(body));
      const last = place.read();
      if (last?.digest === digest) return last.key;
      const key = random();
      place.write({ digest, key });
      return key;
    },
    async attempted(body) {
      const last = place.read();
      if (!last) return null;
      return last.digest === (await sha256(writeJson(body))) ? "same" : "other";
    },
    forget: () => place.write(null),
  };
}
