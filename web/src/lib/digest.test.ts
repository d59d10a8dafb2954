import { expect, test } from "vitest";
import { addressId } from "./digest";

test("an address has the digest of its small letters", async () => {
  // printf %s ada@example.org | sha256sum
  const ada = "cfe00dde46ef942601ffafb9e2825e802858b460e586b8305b344c1eb826357d";
  expect(await addressId("ada@example.org")).toBe(ada);
  expect(await addressId(" Ada@EXAMPLE.org ")).toBe(ada);
});

test("invisible characters around an address do not change its digest", async () => {
  const spelt = "\ufeff\u200b\u202a ada@example.org\u00a0\ufe0f\u2069\u{e0100}\u180b";
  expect(await addressId(spelt)).toBe(await addressId("ada@example.org"));
});

test("a domain beyond ASCII has the digest of its ASCII form", async () => {
  expect(await addressId("ada@bücher.example")).toBe(await addressId("ada@xn--bcher-kva.example"));
});
