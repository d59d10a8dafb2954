import { expect, test } from "vitest";
import type { UserNotification } from "../api/types";
import { decidingKey, eventsOf, settingsByCategory, type Effective } from "./person";

const effective = (values: Partial<Effective>): Effective => ({ category: "news", channel: "push", wanted: true, layer: "user", rule: null, row: null, ...values });
const notification = (at: string): UserNotification => ({ at, send_id: at, channel: "push", club_id: 1, type: "news", status: "sent", reason: null });
const device = { device_id: 420, platform: "gcm", status: "active" as const, changed_at: "2026-05-03T10:00:00Z", row: { table: "device_state", version: 1, changed_at: null } };

test("settings are grouped by category", () => {
  const rows = settingsByCategory([effective({}), effective({ channel: "email" }), effective({ category: "match" })]);
  expect(rows.map((row) => [row.category, row.channels.map((each) => each.channel)])).toEqual([["news", ["push", "email"]], ["match", ["push"]]]);
});

test.each([
  [{ rule: "category:news channel:push" }, "both"],
  [{ rule: "category:news" }, "category"],
  [{ rule: "channel:push", wanted: false }, "channel"],
  [{ rule: "channels malformed: sms", wanted: false }, "malformed"],
  [{ rule: null, layer: "default" }, "none"],
  [{ rule: "mandatory", layer: "default" }, "mandatory"],
  [{ rule: "opt_in", layer: "default", wanted: false }, "opt_in"],
  [{ rule: "later_rule", layer: "user" }, "other"],
  [{ rule: "channel:push", layer: "tenant", wanted: false }, "tenant"],
  [{ rule: "category:news", layer: "global" }, "global"],
])("the deciding setting of %o is %s", (values, key) => {
  expect(decidingKey(effective(values))).toBe(key);
});

test("events are in the order of their times", () => {
  const events = eventsOf([notification("2026-05-03T11:00:00Z"), notification("2026-05-03T09:00:00Z")], true, { devices: [device] }, { changed_at: "2026-05-02T00:00:00Z" });
  expect(events.map((each) => each.kind)).toEqual(["notification", "device", "notification", "settings"]);
});

test("changes before the earliest loaded notification wait for the earlier ones", () => {
  const loaded = [notification("2026-05-03T11:00:00Z"), notification("2026-05-03T09:30:00Z")];
  const events = eventsOf(loaded, false, { devices: [device] }, { changed_at: "2026-05-02T00:00:00Z" });
  expect(events.map((each) => each.kind)).toEqual(["notification", "device", "notification"]);
});

test("a user without a log still has changes", () => {
  expect(eventsOf([], true, { devices: [device] }, { changed_at: null }).map((each) => each.kind)).toEqual(["device"]);
});
