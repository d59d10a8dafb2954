import type { Scope } from "../api/types";

/** The sections of the page Operations, each with the scope that the API needs for it. */
export const SECTIONS = {
  health: "operate",
  alarms: "operate",
  letters: "operate",
  devices: "operate",
  suppressions: "operate",
  webhooks: "webhooks",
  keys: "admin",
  audit: "admin",
} as const satisfies Record<string, Scope>;
export type Section = keyof typeof SECTIONS;

const SCOPES = { overview: "read", compose: "send", sends: "read", templates: "read", metrics: "read", person: "users:read" } as const satisfies Record<string, Scope>;
export type PageName = keyof typeof SCOPES | "operations";

type May = (scope: Scope) => boolean;

export const permittedSections = (may: May): Section[] => (Object.keys(SECTIONS) as Section[]).filter((section) => may(SECTIONS[section]));

/** Return the pages of the main navigation that a person may open. */
export function permittedPages(may: May): PageName[] {
  const pages = (Object.keys(SCOPES) as (keyof typeof SCOPES)[]).filter((page) => may(SCOPES[page]));
  return permittedSections(may).length ? [...pages, "operations"] : pages;
}

export type Target = { name: PageName; params?: { section: Section } };

/** Return the page that is opened in the place of one that the person may not open; null if they may. */
export function instead(name: unknown, section: unknown, may: May): Target | null {
  const permitted = permittedSections(may);
  if (name === "operations" && permitted.length) {
    if (section === undefined || section === "") return null;
    return permitted.some((each) => each === section) ? null : { name: "operations", params: { section: permitted[0]! } };
  }
  const pages = permittedPages(may);
  const page = name === "send" ? "sends" : name;
  if (pages.some((each) => each === page) || page === "overview") return null;
  return { name: "overview" };
}
