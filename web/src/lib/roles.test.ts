import { describe, expect, it } from "vitest";
import text from "../../../docs/openapi/masscomm.json?raw";
import { clubsOf, scopesOf, type Scope } from "./roles";

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
      expect(["viewer", "sender", "admin"].filter((role) => scopesOf([role]).has(scope as Scope))).toEqual(roles);
    }
  });

  it.each([undefined, null, "admin", { admin: 1 }, ["Admin"], [["admin"]], [7]])("have no scope for %j", (roles) => {
    expect([...scopesOf(roles)]).toEqual([]);
  });

  it("are added up", () => {
    expect([...scopesOf(["viewer", "root", "sender"])].sort()).toEqual(["read", "send", "send:content", "users:read"]);
  });
});

describe("clubs", () => {
  it.each([
    [[7], ["7"]],
    [[7, 8], ["7", "8"]],
    [[], []],
    ["*", []],
    [["7"], []],
    [undefined, []],
  ])("of %j are %j", (claim, clubs) => {
    expect(clubsOf(claim)).toEqual(clubs);
  });
});
