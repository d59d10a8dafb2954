/** The rules of a tenant as the form has them, one a line: `push=off`, `news=on` or `news.email=off`. */

import { CHANNELS } from "../api/types";

export interface TenantRules {
  channels: Record<string, boolean>;
  categories: Record<string, boolean | Record<string, boolean>>;
}

const RULE = /^([^=]+?)\s*=\s*(on|off)$/;
const isChannel = (name: string): boolean => (CHANNELS as readonly string[]).includes(name);
const word = (wanted: boolean): string => (wanted ? "on" : "off");

/** Return the rules as text. */
export function textOf(rules: TenantRules): string {
  const channels = Object.entries(rules.channels).map(([name, wanted]) => `${name}=${word(wanted)}`);
  const categories = Object.entries(rules.categories).flatMap(([name, rule]) =>
    typeof rule === "boolean" ? [`${name}=${word(rule)}`] : Object.entries(rule).map(([channel, wanted]) => `${name}.${channel}=${word(wanted)}`),
  );
  return [...channels, ...categories].join("\n");
}

/** Return the rules in a text; the first line that is none; or that a line contradicts an earlier one. A name of a category may contain dots. */
export function rulesIn(text: string): TenantRules | { line: string } {
  const found: TenantRules = { channels: {}, categories: {} };
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const [, name, setting] = RULE.exec(line) ?? [];
    if (!name || !setting) return { line };
    const wanted = setting === "on";
    const dot = name.lastIndexOf(".");
    const channel = name.slice(dot + 1);
    if (isChannel(name)) {
      if (name in found.channels) return { line };
      found.channels[name] = wanted;
    } else if (dot > 0 && isChannel(channel)) {
      const category = name.slice(0, dot);
      const rule = (found.categories[category] ??= {});
      if (typeof rule === "boolean" || channel in rule) return { line };
      rule[channel] = wanted;
    } else {
      if (name in found.categories) return { line };
      found.categories[name] = wanted;
    }
  }
  return found;
}
