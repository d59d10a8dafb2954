import { expect, test } from "vitest";
import { repeatableKeys, type LastKey } from "./keys";

function numbered(): () => string {
  let number = 0;
  return () => `key-${(number += 1)}`;
}

test("a repeated request has the key of the first one", async () => {
  const keys = repeatableKeys(undefined, numbered());
  expect([await keys.of({ a: 1 }), await keys.of({ a: 1 }), await keys.of({ a: 2 }), await keys.of({ a: 1 })]).toEqual([
    "key-1", "key-1", "key-2", "key-3",
  ]);
  keys.forget();
  expect(await keys.of({ a: 1 })).toBe("key-4");
});

test("a key outlives the page that made it", async () => {
  let stored: LastKey | null = null;
  const place = { read: () => stored, write: (last: LastKey | null) => (stored = last) };
  const random = numbered();
  expect(await repeatableKeys(place, random).of({ a: 1 })).toBe("key-1");
  expect(await repeatableKeys(place, random).of({ a: 1 })).toBe("key-1");
});

test("a request without an answer is remembered until it is forgotten", async () => {
  const keys = repeatableKeys();
  expect(await keys.attempted({ a: 1 })).toBeNull();
  await keys.of({ a: 1 });
  expect([await keys.attempted({ a: 1 }), await keys.attempted({ a: 2 })]).toEqual(["same", "other"]);
  keys.forget();
  expect(await keys.attempted({ a: 1 })).toBeNull();
});
