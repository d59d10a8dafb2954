import { readJson } from "masscomm-client";
import type { Scope } from "../api/types";
import { isId } from "./ids";

// The scopes of a role, as the API has them (masscomm/http/scopes.py). The API refuses what a page hides.
const VIEWER: Scope[] = ["read", "users:read"];
const SENDER: Scope[] = [...VIEWER, "send", "send:content"];
const SCOPES: ReadonlyMap<unknown, readonly Scope[]> = new Map([
  ["viewer", VIEWER],
  ["sender", SENDER],
  ["developer", ["read", "webhooks"]],
  ["admin", [...SENDER, "send:critical", "send:mandatory", "users:write", "operate", "webhooks", "events", "admin"]],
]);

/** Return the claims of an id token. Those of `oidc-client-ts` have rounded ids of clubs. */
export function claimsOf(token: string): Record<string, unknown> {
  const payload = atob(token.split(".")[1]!.replaceAll("-", "+").replaceAll("_", "/"));
  return readJson(new TextDecoder().decode(Uint8Array.from(payload, (each) => each.charCodeAt(0)))) as Record<string, unknown>;
}

/** Return the scopes of the claim `roles`. An unknown role, or another type, has none. */
export function scopesOf(roles: unknown): ReadonlySet<Scope> {
  return new Set((Array.isArray(roles) ? roles : []).flatMap((role) => SCOPES.get(role) ?? []));
}

/** Return the clubs of the claim `clubs`, as text; none if the person belongs to every club. */
export function clubsOf(clubs: unknown): string[] {
  return (Array.isArray(clubs) ? clubs : []).filter(isId).map(String);
}
