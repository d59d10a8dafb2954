import type { PageName, Section } from "./pages";

/** The page of the documentation about each page of the console, and about each section. */
const PAGES = {
  overview: "docs/console.md",
  compose: "docs/sending.md",
  sends: "docs/sending.md#following-a-send",
  send: "docs/sending.md#statuses",
  schedules: "docs/sending.md#recurring-sends",
  audiences: "docs/audiences.md#saved-audiences",
  templates: "docs/templates.md",
  categories: "docs/operations.md#add-a-category",
  metrics: "docs/metrics-api.md",
  person: "docs/preferences.md",
  events: "docs/event-delivery.md",
  types: "docs/event-sources.md#event-types",
  endpoints: "docs/webhooks.md",
  subscriptions: "docs/event-delivery.md#subscriptions",
  sources: "docs/event-sources.md#incoming-webhooks",
  operations: "docs/operations.md",
  health: "docs/operations.md#health",
  alarms: "docs/operations.md#alarms",
  letters: "docs/operations.md#dead-letters",
  devices: "docs/operations.md#devices",
  suppressions: "docs/operations.md#suppressions",
  keys: "docs/access.md#api-keys",
  audit: "docs/access.md#audit-log",
} as const satisfies Record<PageName | "send" | Section, string>;

/** Return the address of the documentation about a page or section, relative to that of the console. */
export function docsOf(page: unknown, section: unknown): string {
  const name = [section, page].find((each): each is keyof typeof PAGES => typeof each === "string" && each in PAGES);
  return PAGES[name ?? "overview"].replace(".md", ".html");
}
