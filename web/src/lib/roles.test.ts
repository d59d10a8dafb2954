import { describe, expect, it } from "vitest";
import text from "../../../docs/openapi/masscomm.json?raw";
import type { Scope } from "../api/types";
import { claimsOf, clubsOf, scopesOf } from "./roles";

interface Operation {
  security?: { api_key?: Scope[]; person?: string[] }[];
}

describe("roles", () => {
  it("have the scopes that the API's document names for each route", () => {
    const document = JSON.parse(text) as { paths: Record<string, Record<string, Operation>> };
    const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
    expect(operations.length).toBeGreaterThan(10);
    for (const { security = [] } of operations) {
      const scope = security.flatMap((each) => each.api_key ?? [])[0];
      const roles = security.flatMap((each) => each.person ?? []);
      expect(["viewer", "sender", "developer", "admin"].filter((role) => scopesOf([role]).has(scope as Scope))).toEqual(roles);
    }
  });

  it.each([undefined, null, "admin", { admin: 1 }, ["Admin"], [["admin"]], [7]])("have no scope for %j", (roles) => {
    expect([...scopesOf(roles)]).toEqual([]);
  });

  it("are added up", () => {
    expect([...scopesOf(["viewer", "root", "sender"])].sort()).toEqual(["read", "send", "send:content", "users:read"]);
  });
});

describe("claims", () => {
  it("of an id token have exact clubs", () => {
    const payload = btoa(String.fromCharCode(...new TextEncoder().encode('{"name":"Zoë ÿ?>","clubs":[9007199254740993]}')));
    const token = `e30.${payload.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}.c2ln`;
    expect(claimsOf(token)).toEqual({ name: "Zoë ÿ?>", clubs: [9007199254740993n] });
  });
});

describe("clubs", () => {
  it.each([
    [[7], ["7"]],
    [[9007199254740993n], ["9007199254740993"]],
    [[7, 8], ["7", "8"]],
    [[], []],
    ["*", []],
    [["7"], []],
    [undefined, []],
  ])("of %s are %j", (claim, clubs) => {
    expect(clubsOf(claim)).toEqual(clubs);
  });
});
