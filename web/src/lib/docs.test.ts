import { expect, test } from "vitest";
import { docsOf } from "./docs";

// That the pages and their sections exist is tested with all pages that code names (tests/unit/test_docs.py).
test.each([
  ["compose", undefined, "docs/sending.html"],
  ["operations", "letters", "docs/operations.html#dead-letters"],
  ["operations", "", "docs/operations.html"],
  [undefined, undefined, "docs/console.html"],
])("%s, section %s, is described in %s", (page, section, address) => {
  expect(docsOf(page, section)).toBe(address);
});
