import { expect, test } from "vitest";
import text from "../../../docs/openapi/masscomm.json?raw";
import { instead, permittedPages, permittedSections, SECTIONS } from "./pages";
import type { Scope } from "../api/types";
import { scopesOf } from "./roles";

const mayOf = (...roles: string[]) => (scope: Scope) => scopesOf(roles).has(scope);

test.each([
  ["viewer", ["overview", "sends", "schedules", "audiences", "templates", "categories", "metrics", "person", "events"]],
  ["sender", ["overview", "compose", "sends", "schedules", "audiences", "templates", "categories", "metrics", "person", "events"]],
  ["developer", ["overview", "sends", "schedules", "audiences", "templates", "categories", "metrics", "events"]],
  ["admin", ["overview", "compose", "sends", "schedules", "audiences", "templates", "categories", "metrics", "person", "events", "operations"]],
])("a %s may open %j", (role, pages) => {
  expect(permittedPages(mayOf(role))).toEqual(pages);
});

test.each([
  ["compose", undefined, "viewer", { name: "overview" }],
  ["compose", undefined, "sender", null],
  ["send", undefined, "viewer", null],
  ["operations", "keys", "viewer", { name: "overview" }],
  ["operations", "keys", "developer", { name: "overview" }],
  ["person", undefined, "developer", { name: "overview" }],
  ["events", "sources", "developer", null],
  ["events", "sources", "viewer", { name: "events", params: { section: "types" } }],
  ["operations", undefined, "sender", { name: "overview" }],
  ["operations", "keys", "admin", null],
  ["operations", undefined, "admin", null],
  ["operations", "no section", "admin", { name: "operations", params: { section: "health" } }],
  ["overview", undefined, "no role", null],
])("%s/%s for a %s leads to %j", (name, section, role, target) => {
  expect(instead(name, section, mayOf(role))).toEqual(target);
});

test("a section needs its own scope", () => {
  const operate = (scope: Scope) => scope === "operate";
  expect(permittedSections("operations", operate)).toEqual(["health", "alarms", "letters", "devices", "suppressions"]);
  expect(permittedSections("events", operate)).toEqual([]);
  expect(instead("operations", "keys", operate)).toEqual({ name: "operations", params: { section: "health" } });
});

test("sections have the scopes of the API", () => {
  const { paths } = JSON.parse(text) as { paths: Record<string, { get?: { security: { api_key?: Scope[] }[] } }> };
  const of = (path: string) => paths[path]?.get?.security.flatMap((each) => each.api_key ?? [])[0];
  const others: Record<string, string> = { letters: "dead-letters", types: "event-types", endpoints: "webhooks" };
  for (const sections of Object.values(SECTIONS)) {
    for (const [section, scope] of Object.entries(sections)) expect(of(`/v1/${others[section] ?? section}`), section).toBe(scope);
  }
});
