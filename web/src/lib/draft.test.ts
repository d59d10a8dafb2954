import { expect, test } from "vitest";
import { newAudience } from "./audience";
import { contentOf, countedRequestOf, errorsOf, newDraft, requestOf, scheduleOf, testRequestOf, type Draft } from "./draft";
import { newPush } from "./push";
import { parseRecipients } from "./recipients";
import { newRepeat } from "./repeat";

const NOW = Date.parse("2026-11-23T12:00:00Z");

function draft(changes: Partial<Draft> = {}): Draft {
  return { ...newDraft("1"), title: "Hello", body: "It works.", recipients: "42", zone: "Europe/Madrid", ...changes };
}

const errors = (made: Draft) => errorsOf(made, parseRecipients(made.recipients), NOW);

test("a complete draft has no errors", () => {
  expect(errors(draft())).toEqual({});
});

test("each missing field is named", () => {
  expect(Object.keys(errors(draft({ type: "", club: "", title: " ", body: "", recipients: "" }))).sort()).toEqual([
    "body",
    "club_id",
    "title",
    "to_users",
    "type",
  ]);
});

test("one part that is no user id refuses the list", () => {
  expect(errors(draft({ recipients: "42 x" })).to_users).toBe("compose.invalid");
});

test("a past time and a time that does not exist are refused", () => {
  expect(errors(draft({ when: "later", at: "2026-11-23T12:59" })).send_at).toBe("compose.past");
  expect(errors(draft({ when: "later", at: "2027-03-28T02:30" })).send_at).toBe("compose.gap");
  expect(errors(draft({ when: "later", at: "2026-11-23T13:01" }))).toEqual({});
});

test("a draft that recurs is a schedule with a send without times", () => {
  const made = draft({ when: "repeat", at: "2020-01-06T09:00", expires: "2027-01-01T00:00", repeat: { ...newRepeat(), name: "weekly", days: ["MO"] } });
  expect(errors(made)).toEqual({});
  expect(scheduleOf(made)).toEqual({
    rule: "FREQ=WEEKLY;BYDAY=MO", time_zone: "Europe/Madrid", starts_at_local: "2020-01-06T09:00", catch_up: "none",
    send: { type: "announcement", club_id: 1, to_users: [42], priority: "bulk", data: { title: "Hello", body: "It works." } },
  });
  expect(Object.keys(errors({ ...made, at: "", repeat: newRepeat() })).sort()).toEqual(["schedule", "starts_at_local"]);
});

test("own words become title and body", () => {
  expect(requestOf(draft())).toEqual({
    type: "announcement", club_id: 1, to_users: [42], priority: "bulk", data: { title: "Hello", body: "It works." },
  });
});

test("a club and recipients can have ids of 64 bits", () => {
  const big = draft({ club: "9007199254740993", recipients: "9223372036854775807" });
  expect(errors(big)).toEqual({});
  expect(requestOf(big)).toMatchObject({ club_id: 9007199254740993n, to_users: [9223372036854775807n] });
  expect(errors(draft({ club: "9223372036854775808" }))).toEqual({ club_id: "compose.required" });
});

test("a template has its data and not the words", () => {
  const request = requestOf(
    draft({ mode: "template", template: "goal", data: [{ name: "team", value: "Reds" }, { name: "", value: "x" }, { name: "venue", value: "" }], channels: ["push"] }),
  );
  expect(request).toMatchObject({ template: "goal", channels: ["push"] });
  // A value that is not entered is missing, so that a template's default applies.
  expect(request.data).toEqual({ team: "Reds" });
});

test("a silent push needs no words, and has its data", () => {
  const silent = draft({ title: "", body: "", channels: ["push"], push: { ...newPush(), silent: true, data: "refresh: scores" } });
  expect(errors(silent)).toEqual({});
  expect(requestOf(silent)).toEqual({ type: "announcement", club_id: 1, to_users: [42], priority: "bulk", channels: ["push"], push: { silent: true, data: { refresh: "scores" } } });
  expect(countedRequestOf(silent).data).toBeUndefined();
});

test("an entry of a push that the form cannot read is named", () => {
  expect(errors(draft({ push: { ...newPush(), badge: "many" } }))).toEqual({ push: "push.noBadge" });
});

test("a digest is that of the text, and another text is named", () => {
  expect(requestOf(draft({ digest: "news_digest/1h,key=team" })).digest).toEqual({ template: "news_digest", window: "1h", key: "team" });
  expect(errors(draft({ digest: "daily" })).digest).toBe("categories.noDigest");
});

test("the numbers do not depend on own words, but on everything else", () => {
  const counted = countedRequestOf(draft());
  expect(countedRequestOf(draft({ title: "Other", body: "Words", reference: "r" }))).toEqual(counted);
  expect(countedRequestOf(draft({ title: "", body: "" }))).toEqual(counted);
  for (const change of [{ recipients: "43" }, { type: "news" }, { channels: ["email" as const] }, { mode: "template" as const }]) {
    expect(countedRequestOf(draft(change))).not.toEqual(counted);
  }
});

test("times are sent in UTC; a time that is switched off is not sent", () => {
  expect(requestOf(draft({ when: "later", at: "2026-11-24T09:30" })).send_at).toBe("2026-11-24T08:30:00Z");
  expect(requestOf(draft({ when: "now", at: "2026-11-24T09:30" })).send_at).toBeUndefined();
});

test.each<[Partial<Draft>, string | undefined]>([
  [{ when: "later" }, "due"],
  [{ when: "local", audienceAt: "request" }, "request"],
  [{ when: "now", audienceAt: "request" }, undefined],
  [{ when: "later", to: "list" }, undefined],
])("the audience of a send with %j is found at: %s", (changes, expected) => {
  const audience = { ...newAudience(), mode: "everyone" as const };
  expect(requestOf(draft({ to: "audience", audience, at: "2026-11-24T09:30", ...changes })).audience_at).toBe(expected);
});

test("an audience takes the place of the list", () => {
  const everyone = draft({ to: "audience", recipients: "42", audience: { ...newAudience(), mode: "everyone" } });
  expect(errors(everyone)).toEqual({});
  expect(requestOf(everyone)).toMatchObject({ audience: { all_users: true } });
  expect(requestOf(everyone).to_users).toBeUndefined();
  expect(errors(draft({ to: "audience" })).audience).toBe("audience.valueMissing");
});

test("a time of the recipient's own zone has passed once it has passed in each zone", () => {
  const local = (at: string) => draft({ when: "local", at });
  expect(requestOf(local("2026-11-24T09:00"))).toMatchObject({ send_at_local: "2026-11-24T09:00" });
  expect(errors(local("2026-11-23T00:01"))).toEqual({});
  expect(errors(local("2026-11-23T00:00")).send_at_local).toBe("compose.past");
  expect(errors(local("")).send_at_local).toBe("compose.required");
});

test("a test goes to one user at once", () => {
  const request = testRequestOf(draft({ when: "later", at: "2026-11-24T09:30", expires: "2026-11-25T09:30", reference: "r" }), 7);
  expect(request).toEqual({ type: "announcement", club_id: 1, to_users: [7], priority: "bulk", data: { title: "Hello", body: "It works." } });
});

test("a pace is a number a minute or a time, not both", () => {
  expect(requestOf(draft({ perMinute: "500" })).per_minute).toBe(500);
  expect(requestOf(draft({ spreadOver: "2h" })).spread_over).toBe("2h");
  expect(errors(draft({ perMinute: "0" })).per_minute).toBe("compose.noPerMinute");
  expect(errors(draft({ spreadOver: "8d" })).spread_over).toBe("compose.noSpread");
  expect(errors(draft({ perMinute: "5", spreadOver: "2h" })).spread_over).toBe("compose.onePace");
});

test("each further channel waits for the one before it", () => {
  const both = draft({ channels: ["email", "push"], fallbackIf: "not_sent" });
  expect(requestOf(both).channels).toEqual(["push", { channel: "email", if: "not_sent", after: "10m" }]);
  expect(contentOf(both).channels).toEqual(["email", "push"]);
  expect(errors(draft({ channels: ["push", "email"], fallbackIf: "not_sent", fallbackAfter: "8d" })).channels).toBe("compose.noFallbackAfter");
  expect(requestOf(draft({ channels: ["push"], fallbackIf: "not_sent", fallbackAfter: "" })).channels).toEqual(["push"]);
});
