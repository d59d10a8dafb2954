import { expect, test } from "vitest";
import { authenticationOf, creationOf, endpointState, EVENT_TYPES, isOwn, lastResult } from "./webhooks";

const DRAFT = { club: "7", url: " https://hooks.example.org/a ", description: " shop ", contact: "", role: "", types: [] as string[] };
const ATTEMPT = { at: "2026-11-21T12:00:00Z", duration_ms: 5, status: null, error: null, body: "" };

test("an endpoint is enabled, failing or disabled", () => {
  expect(endpointState({ enabled: true, failing_since: null })).toBe("enabled");
  expect(endpointState({ enabled: true, failing_since: "2026-11-21T12:00:00Z" })).toBe("failing");
  expect(endpointState({ enabled: false, failing_since: "2026-11-21T12:00:00Z" })).toBe("disabled");
});

test("the last result is the status, else the reason", () => {
  expect(lastResult({ last_attempts: [] })).toBeNull();
  expect(lastResult({ last_attempts: [{ ...ATTEMPT, status: 503 }, { ...ATTEMPT, status: 200 }] })).toBe("503");
  expect(lastResult({ last_attempts: [{ ...ATTEMPT, error: "no answer within 15 s" }] })).toBe("no answer within 15 s");
});

test("an event of a send or a test can be sent again", () => {
  expect([...EVENT_TYPES.filter((type) => type.startsWith("send.")), "webhook.test"].every((type) => isOwn({ event_type: type }))).toBe(true);
  expect(["match.finished", "notification.sent", "webhook.disabled", "sending"].some((type) => isOwn({ event_type: type }))).toBe(false);
});

test("a creation has trimmed texts and the chosen types in order", () => {
  expect(creationOf({ ...DRAFT, contact: " 42 ", types: ["send.failed", "send.accepted", "other"] })).toEqual({
    club_id: 7,
    url: "https://hooks.example.org/a",
    description: "shop",
    contact_user_id: 42,
    event_types: ["send.accepted", "send.failed"],
  });
});

test("a queue or an event bus has a role", () => {
  const queue = { ...DRAFT, url: "arn:aws:sqs:eu-central-1:123456789012:events" };
  expect(creationOf({ ...queue, role: " arn:aws:iam::123456789012:role/masscomm-events " }).role_arn).toBe("arn:aws:iam::123456789012:role/masscomm-events");
  expect(creationOf(queue).role_arn).toBeNull();
  expect(creationOf({ ...DRAFT, role: "left over" })).not.toHaveProperty("role_arn");
});

test("every type is the same as none, so that later types are included", () => {
  expect(creationOf({ ...DRAFT, types: [...EVENT_TYPES] }).event_types).toEqual([]);
  expect(creationOf(DRAFT).event_types).toEqual([]);
});

test("an authentication has the filled fields of its type", () => {
  const values = { token: " t ", username: " ada ", password: " p ", scope: "" };
  expect(authenticationOf("bearer", values)).toEqual({ type: "bearer", token: " t " });
  expect(authenticationOf("basic", values)).toEqual({ type: "basic", username: "ada", password: " p " });
  const client = { token_url: " https://login.example.org/ ", client_id: "shop", client_secret: "s", scope: " " };
  expect(authenticationOf("oauth2", client)).toEqual({ type: "oauth2", token_url: "https://login.example.org/", client_id: "shop", client_secret: "s" });
});

test("headers are lines with a name and a value", () => {
  const headers = authenticationOf("headers", { headers: "x-api-key: a:b\n\n  X-Tenant:7 \nwrong\n" });
  expect(headers).toEqual({ type: "headers", headers: { "x-api-key": "a:b", "X-Tenant": "7", wrong: "" } });
});
