import { describe, expect, it, test } from "vitest";
import { isReadable, objectOf, subscriptionOf, wordsOf, type RuleDraft } from "./subscriptions";

const DRAFT = { types: "match.*, order.paid", units: "", fields: "", filter: "" };
const RULE: RuleDraft = { category: "announcement", recipients: "users_path", value: " fans ", variables: "" };

test("words have commas or spaces between them", () => {
  expect(wordsOf(" match.*,order.paid  a,, ")).toEqual(["match.*", "order.paid", "a"]);
});

it.each(["", "[]", "null", "7", "{", '"a"'])("%j is not a JSON object", (text) => {
  expect(objectOf(text)).toBeNull();
});

describe("a subscription", () => {
  it("has the filled conditions alone", () => {
    expect(subscriptionOf(DRAFT, 7, { endpoint_id: "ep_7_a" })).toEqual({ types: ["match.*", "order.paid"], club_ids: [7], endpoint_id: "ep_7_a" });
    const filled = { types: "*", units: "100/7 200", fields: "a.b", filter: '{"kind": ["cup", 9007199254740993]}' };
    expect(subscriptionOf(filled, 7, { endpoint_id: "ep_7_a" })).toEqual({
      types: ["*"],
      club_ids: [7],
      units: ["100/7", "200"],
      filter: { kind: ["cup", 9007199254740993n] },
      endpoint_id: "ep_7_a",
      fields: ["a.b"],
    });
  });

  it("becomes a notification if it is a rule", () => {
    const notification = { type: "announcement", users_path: "fans" };
    expect(subscriptionOf({ ...DRAFT, fields: "a" }, 7, RULE)).toEqual({ types: ["match.*", "order.paid"], club_ids: [7], notification });
    const variables = { ...RULE, variables: "goals: score.goals\n\nname : team.name" };
    expect(subscriptionOf(DRAFT, 7, variables).notification).toEqual({ ...notification, data: { goals: "score.goals", name: "team.name" } });
    const audience: RuleDraft = { ...RULE, recipients: "audience", value: '{"all_users": true}' };
    expect(subscriptionOf(DRAFT, 7, audience).notification).toEqual({ type: "announcement", audience: { all_users: true } });
  });

  it("is readable if its filter and its audience are objects", () => {
    expect(isReadable(DRAFT, RULE)).toBe(true);
    expect(isReadable({ ...DRAFT, filter: "[" }, null)).toBe(false);
    expect(isReadable(DRAFT, { ...RULE, recipients: "audience", value: "everybody" })).toBe(false);
  });
});
