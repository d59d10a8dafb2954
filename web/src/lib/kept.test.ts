import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newDraft, takeDraft } from "./draft";
import { forgetAll, keep, kept } from "./kept";

const stored = new Map<string, string>();
const LARGEST = 1_000;

beforeEach(() => {
  stored.clear();
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    setItem: (name: string, text: string) => {
      if (text.length > LARGEST) throw new DOMException("full", "QuotaExceededError");
      stored.set(name, text);
    },
    removeItem: (name: string) => stored.delete(name),
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test("a value is kept for one person", () => {
  keep("own-user", "ada", "42");
  expect([kept("own-user", "ada"), kept("own-user", "grace"), kept("draft", "ada")]).toEqual(["42", null, null]);
});

test("a value that does not fit removes the earlier one", () => {
  keep("draft", "ada", "first");
  keep("draft", "ada", "7 ".repeat(LARGEST));
  expect(kept("draft", "ada")).toBeNull();
});

test("a sign-out forgets every value", () => {
  keep("draft", "ada", 1);
  keep("own-user", "ada", "42");
  keep("send-key", "ada", { digest: "d", key: "k" });
  keep("test-key", "ada", { digest: "d", key: "k" });
  forgetAll();
  expect([...stored.keys()]).toEqual([]);
});

test("the form of an earlier version is not a value", () => {
  stored.set("masscomm.own-user", "42");
  stored.set("masscomm.draft", JSON.stringify({ person: "ada", draft: { title: "x" } }));
  expect([kept("own-user", "ada"), kept("draft", "ada")]).toEqual([null, null]);
});

test("a kept draft is taken once, by the same person", () => {
  const written = { ...newDraft("1"), title: "Kept" };
  keep("draft", "ada", written);
  const own = newDraft("1");
  expect(takeDraft(own, "ada")).toBe(true);
  expect(own).toEqual(written);
  expect(takeDraft(newDraft("1"), "ada")).toBe(false);

  keep("draft", "ada", written);
  const other = newDraft("1");
  expect(takeDraft(other, "grace")).toBe(false);
  expect(other.title).toBe("");
  expect(stored.size).toBe(0);
});
