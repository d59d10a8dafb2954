/** What the page of a user shows: settings by category and channel, and what happened to the user. */

import type { Preferences, User, UserNotification } from "../api/types";

export type Effective = Preferences["effective"][number];

export type PersonEvent =
  | { kind: "notification"; at: string; notification: UserNotification }
  | { kind: "settings"; at: string }
  | { kind: "device"; at: string; device: User["devices"][number] };

/** Return the settings of each category by channel, in the order of the API. */
export function settingsByCategory(effective: readonly Effective[]): { category: string; channels: Effective[] }[] {
  const categories = [...new Set(effective.map((each) => each.category))];
  return categories.map((category) => ({ category, channels: effective.filter((each) => each.category === category) }));
}

/** Return the key of a message that names the setting which decides about a category on a channel. */
export function decidingKey({ layer, rule, wanted }: Effective): string {
  if (rule?.includes("malformed")) return "malformed";
  if (layer === "tenant" || layer === "global") return layer;
  if (layer !== "user") return rule === "mandatory" || rule === "opt_in" ? rule : wanted ? "none" : "other";
  const [category, channel] = [rule?.startsWith("category:"), /(^| )channel:/.test(rule ?? "")];
  return category ? (channel ? "both" : "category") : channel ? "channel" : "other";
}

/**
 * Return what happened to a user, the latest first.
 *
 * @param notifications Those that are loaded, the latest first.
 * @param whole Whether there are no earlier ones. Otherwise changes before the last one are left out, because others may lie between.
 */
export function eventsOf(
  notifications: readonly UserNotification[],
  whole: boolean,
  user: Pick<User, "devices"> | null,
  preferences: Pick<Preferences, "changed_at"> | null,
): PersonEvent[] {
  const changes: PersonEvent[] = (user?.devices ?? []).flatMap((device) => (device.changed_at ? [{ kind: "device", at: device.changed_at, device }] : []));
  if (preferences?.changed_at) changes.push({ kind: "settings", at: preferences.changed_at });
  const from = whole ? -Infinity : Date.parse(notifications.at(-1)?.at ?? "");
  const shown = notifications.map((notification): PersonEvent => ({ kind: "notification", at: notification.at, notification }));
  return [...shown, ...changes.filter((each) => Date.parse(each.at) >= from)].sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
}
