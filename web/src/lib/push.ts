/** The field push of a send, as a form has it. */
import type { PushFields } from "../api/types";
import { pairsOf } from "./webhooks";

export const LEVELS = ["passive", "active", "time_sensitive", "critical"] as const satisfies readonly NonNullable<PushFields["interruption_level"]>[];

export interface PushDraft {
  silent: boolean;
  image: string;
  badge: string;
  sound: string;
  channel: string;
  level: "" | (typeof LEVELS)[number];
  /** Lines such as `watch: Watch | riverside://matches/7`. */
  actions: string;
  /** Lines such as `match: 7`. */
  data: string;
}

export const newPush = (): PushDraft => ({ silent: false, image: "", badge: "", sound: "", channel: "", level: "", actions: "", data: "" });

/** Return the buttons in lines; undefined if one is not a button. The API checks their values. */
export function actionsOf(text: string): NonNullable<PushFields["actions"]> | undefined {
  const lines = text.split("\n").filter((line) => line.trim());
  const found = lines.map((line) => /^\s*([\w-]{1,32})\s*:\s*([^|]*[^|\s])\s*(?:\|\s*(\S+)\s*)?$/.exec(line));
  if (found.includes(null)) return undefined;
  return found.map((each) => ({ id: each![1]!, title: each![2]!, ...(each![3] && { url: each![3] }) }));
}

/** Return the key of a message about what is wrong in a draft; null if nothing is. The API checks everything again. */
export function pushError({ silent, badge, actions }: PushDraft): "noBadge" | "noAction" | null {
  if (silent) return null;
  if (badge.trim() && !/^\d{1,9}$/.test(badge.trim())) return "noBadge";
  return actionsOf(actions) === undefined ? "noAction" : null;
}

/** Return the field of a draft without errors; undefined if nothing is entered. A silent push has data only. */
export function pushOf(draft: PushDraft): PushFields | undefined {
  const push: PushFields = {};
  const text = (name: "image" | "sound", value: string): void => void (value.trim() && (push[name] = value.trim()));
  if (draft.silent) push.silent = true;
  else {
    text("image", draft.image);
    text("sound", draft.sound);
    if (draft.badge.trim()) push.badge = Number(draft.badge);
    if (draft.channel.trim()) push.android_channel = draft.channel.trim();
    if (draft.level) push.interruption_level = draft.level;
    const actions = actionsOf(draft.actions);
    if (actions?.length) push.actions = actions;
  }
  const data = pairsOf(draft.data);
  if (Object.keys(data).length) push.data = data;
  return Object.keys(push).length ? push : undefined;
}
