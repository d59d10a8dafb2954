import { expect, test } from "vitest";

test("every page reads and writes JSON by the client, which rounds no id", () => {
  const sources = import.meta.glob<string>(["../**/*.ts", "../**/*.vue", "!../**/*.test.ts"], { query: "?raw", import: "default", eager: true });
  expect(Object.keys(sources).length).toBeGreaterThan(50);
  const others = Object.entries(sources).filter(([, source]) => /JSON\.(parse|stringify)|\.json\(\)/.test(source));
  // The options of a formatter are the key of a cache.
  expect(others.map(([path]) => path)).toEqual(["./format.ts"]);
});
