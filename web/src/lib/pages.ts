import type { Scope } from "../api/types";

/** The sections of the pages that have some, each with the scope that the API needs for it. */
export const SECTIONS = {
  events: {
    types: "read",
    endpoints: "webhooks",
    subscriptions: "webhooks",
    sources: "webhooks",
  },
  operations: {
    health: "operate",
    alarms: "operate",
    letters: "operate",
    devices: "operate",
    suppressions: "operate",
    keys: "admin",
    audit: "admin",
  },
} as const satisfies Record<string, Record<string, Scope>>;
export type SectionedPage = keyof typeof SECTIONS;
export type Section<Page extends SectionedPage = SectionedPage> = Page extends SectionedPage ? keyof (typeof SECTIONS)[Page] & string : never;

const SCOPES = { overview: "read", compose: "send", sends: "read", schedules: "read", audiences: "read", templates: "read", categories: "read", metrics: "read", person: "users:read" } as const satisfies Record<string, Scope>;
export type PageName = keyof typeof SCOPES | SectionedPage;

type May = (scope: Scope) => boolean;

/** Return the sections of a page that a person may open. */
export function permittedSections<Page extends SectionedPage>(page: Page, may: May): Section<Page>[] {
  const sections: Readonly<Record<string, Scope>> = SECTIONS[page];
  return Object.keys(sections).filter((section) => may(sections[section]!)) as Section<Page>[];
}

/** Return the pages of the main navigation that a person may open. */
export function permittedPages(may: May): PageName[] {
  const pages = (Object.keys(SCOPES) as (keyof typeof SCOPES)[]).filter((page) => may(SCOPES[page]));
  return [...pages, ...(Object.keys(SECTIONS) as SectionedPage[]).filter((page) => permittedSections(page, may).length)];
}

const isSectioned = (name: unknown): name is SectionedPage => typeof name === "string" && name in SECTIONS;

export type Target = { name: PageName; params?: { section: Section } };

/** Return the page that is opened in the place of one that the person may not open; null if they may. */
export function instead(name: unknown, section: unknown, may: May): Target | null {
  if (isSectioned(name)) {
    const permitted: Section[] = permittedSections(name, may);
    if (permitted.length) {
      if (section === undefined || section === "") return null;
      return permitted.some((each) => each === section) ? null : { name, params: { section: permitted[0]! } };
    }
  }
  const pages = permittedPages(may);
  const page = name === "send" ? "sends" : name;
  if (pages.some((each) => each === page) || page === "overview") return null;
  return { name: "overview" };
}
