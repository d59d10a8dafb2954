import MarkdownIt from "markdown-it";

const FILES = import.meta.glob<string>("../../../docs/runbooks/*.md", { query: "?raw", import: "default", eager: true });
const RUNBOOK = /^([a-z-]+)\.md$/;

/** The runbooks of this build: their texts in Markdown, by the name of their file without the suffix. */
export const RUNBOOKS: ReadonlyMap<string, string> = new Map(
  Object.entries(FILES)
    .map(([path, text]): [string, string] => [path.replace(/^.*\/(.*)\.md$/, "$1"), text])
    .sort(([a], [b]) => a.localeCompare(b)),
);

const markdown = new MarkdownIt({ html: false });
markdown.disable("image");
// The title of the page is its only heading of the first level.
markdown.core.ruler.push("lower-headings", (state) => {
  for (const token of state.tokens) {
    if (token.type.startsWith("heading_")) token.tag = `h${Number(token.tag.slice(1)) + 1}`;
  }
});
// A link to another runbook shows it; other pages of docs/ are not in the console.
markdown.core.ruler.push("own-links", (state) => {
  for (const token of state.tokens.flatMap((each) => each.children ?? [])) {
    if (token.type !== "link_open") continue;
    const runbook = RUNBOOK.exec(String(token.attrGet("href")))?.[1];
    if (runbook) token.attrSet("href", `#/operations/alarms?runbook=${runbook}`);
    else token.attrs = null;
  }
});

/** Return a text in Markdown as HTML. HTML inside the text is shown as text. */
export const rendered = (text: string): string => markdown.render(text);

/** Return the title of a runbook: its first heading. */
export const titleOf = (text: string): string => /^# (.+)$/m.exec(text)?.[1] ?? "";
