import { expect, test } from "vitest";
import text from "../../../docs/openapi/masscomm.json?raw";
import { instead, permittedPages, permittedSections, SECTIONS } from "./pages";
import type { Scope } from "../api/types";
import { scopesOf } from "./roles";

const mayOf = (...roles: string[]) => (scope: Scope) => scopesOf(roles).has(scope);

test.each([
  ["viewer", ["overview", "sends", "templates", "metrics", "person"]],
  ["sender", ["overview", "compose", "sends", "templates", "metrics", "person"]],
  ["admin", ["overview", "compose", "sends", "templates", "metrics", "person", "operations"]],
])("a %s may open %j", (role, pages) => {
  expect(permittedPages(mayOf(role))).toEqual(pages);
});

test.each([
  ["compose", undefined, "viewer", { name: "overview" }],
  ["compose", undefined, "sender", null],
  ["send", undefined, "viewer", null],
  ["operations", "keys", "viewer", { name: "overview" }],
  ["operations", undefined, "sender", { name: "overview" }],
  ["operations", "keys", "admin", null],
  ["operations", undefined, "admin", null],
  ["operations", "no section", "admin", { name: "operations", params: { section: "health" } }],
  ["overview", undefined, "no role", null],
])("%s/%s for a %s leads to %j", (name, section, role, target) => {
  expect(instead(name, section, mayOf(role))).toEqual(target);
});

test("a section needs its own scope", () => {
  const webhooks = (scope: Scope) => scope === "webhooks";
  expect(permittedSections(webhooks)).toEqual(["webhooks"]);
  expect(instead("operations", "keys", webhooks)).toEqual({ name: "operations", params: { section: "webhooks" } });
});

test("sections have the scopes of the API", () => {
  const { paths } = JSON.parse(text) as { paths: Record<string, { get?: { security: { api_key?: Scope[] }[] } }> };
  const of = (path: string) => paths[path]?.get?.security.flatMap((each) => each.api_key ?? [])[0];
  const read = { health: "health", alarms: "alarms", letters: "dead-letters", devices: "devices", suppressions: "suppressions", webhooks: "webhooks", keys: "keys", audit: "audit" };
  for (const [section, path] of Object.entries(read)) expect(of(`/v1/${path}`), section).toBe(SECTIONS[section as keyof typeof SECTIONS]);
});
