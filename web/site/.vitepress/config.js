// Builds the documentation below docs/ into web/dist-docs, which the gateway serves at /docs.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { renderMermaidSVG } from "beautiful-mermaid";
import { defineConfig } from "vitepress";

const SITE = dirname(dirname(fileURLToPath(import.meta.url)));
const WEB = dirname(SITE);
const DOCS = join(WEB, "..", "docs");
const sidebar = JSON.parse(readFileSync(join(SITE, "sidebar.json"), "utf8"));

// The path below which the gateway and the distribution serve the site.
const BASE = "/docs/";

// The page of Redoc, which is not made from Markdown.
const REFERENCE = "api-reference/index.html";

// The only address of another host that Redoc loads.
const LOGO = "https://cdn.redoc.ly/redoc/logo-mini.svg";

// The path of an example after the language of a block, and the title of its tab by the folder.
const EXAMPLE = / sdk\/(\w+)\/\S+$/;
const LANGUAGES = { curl: "curl", python: "Python", typescript: "TypeScript", java: "Java" };

const titleOf = (page) => /^# (.+)$/m.exec(readFileSync(join(DOCS, page), "utf8"))?.[1].replaceAll("`", "") ?? page;
const group = ({ title, pages }, collapsed) => ({
  text: title,
  collapsed,
  items: pages.map((page) => ({ text: titleOf(page), link: `/${page.replace(/(README)?\.md$/, "")}` })),
});

// The pictures to which pages link. VitePress copies only those that it shows.
const linkedFiles = new Set();

/** Return the anchor of a heading as GitHub makes it: links must work in the repository, too. */
const slugify = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, "").replaceAll(" ", "-");

/** Return a diagram in Mermaid as an SVG. Its colours are those of theme/diagrams.css: the Content-Security-Policy excludes its own style. */
function diagram(code) {
  const svg = renderMermaidSVG(code, { nodeSpacing: 16, layerSpacing: 24, padding: 8 });
  return `<div class="diagram" tabindex="0" v-pre>${svg.replace(/<style>[\s\S]*?<\/style>/, "").replace(/ style="[^"]*"/, "")}</div>`;
}

/** Configure markdown-it: GitHub's Markdown, without HTML. */
function markdown(md) {
  // Vue would evaluate the braces of templates as expressions.
  const text = md.renderer.rules.text;
  md.renderer.rules.text = (...all) => text(...all).replaceAll("{{", "&#123;&#123;");
  const codeInline = md.renderer.rules.code_inline;
  md.renderer.rules.code_inline = (tokens, index, ...others) => {
    tokens[index].attrSet("v-pre", "");
    return codeInline(tokens, index, ...others);
  };
  // Code that is indented looks like code between fences, and Vue does not evaluate its braces.
  md.renderer.rules.code_block = (tokens, index, options, env, self) => {
    tokens[index].info = "sh";
    return self.rules.fence(tokens, index, options, env, self);
  };
  md.core.ruler.push("tabs", (state) => {
    state.tokens = withTabs(state);
  });
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (tokens, index, ...others) =>
    tokens[index].info === "mermaid" ? diagram(tokens[index].content) : fence(tokens, index, ...others);
  md.core.ruler.push("links", ({ tokens, env }) => {
    for (const token of tokens.flatMap((each) => each.children ?? [])) {
      if (token.type !== "link_open") continue;
      const href = String(token.attrGet("href"));
      if (/^\w+:|^#/.test(href)) continue;
      const path = posix.join(posix.dirname(env.relativePath), href);
      if (path === "openapi/masscomm.json") token.attrs = [["href", `${BASE}${REFERENCE}`], ["target", "_self"]];
      else if (path === "runbooks/") token.attrSet("href", `/${sidebar.runbooks.pages[0]}`);
      else if (path === "decisions/README.md") token.attrSet("href", "/decisions/");
      // The site has no page for files of the repository outside of docs/.
      else if (path.startsWith("../")) token.attrs = null;
      else if (/\.(png|svg)$/.test(path)) {
        linkedFiles.add(path);
        token.attrs = [["href", `${BASE}${path}`], ["target", "_self"]];
      }
    }
  });
}

/**
 * Return the tokens of a page, in which an example in several languages is a group of tabs. Its source is a sequence of
 * blocks, each with the path of its file, which GitHub shows one after the other.
 */
function withTabs({ tokens, Token }) {
  const languageOf = (token) => (token?.type === "fence" ? EXAMPLE.exec(token.info)?.[1] : undefined);
  return tokens.flatMap((token, index) => {
    const language = languageOf(token);
    // VitePress would take a digit in the rest of the line, such as that of a path, for a line to highlight.
    if (token.type === "fence" && language === undefined) token.info = token.info.replace(/ .*/, "");
    if (language === undefined) return [token];
    token.info = token.info.replace(EXAMPLE, ` [${LANGUAGES[language]}]`);
    const before = tokens[index - 1]?.type === "fence" && tokens[index - 1].info.endsWith("]");
    const open = before ? [] : [new Token("container_code-group_open", "div", 1)];
    const close = languageOf(tokens[index + 1]) === undefined ? [new Token("container_code-group_close", "div", -1)] : [];
    return [...open, token, ...close];
  });
}

/** Move the scripts inside a page to files, because the Content-Security-Policy excludes inline scripts. */
function externalScripts(html, out) {
  return html.replace(/<script(?: id="[\w-]+")?>([\s\S]*?)<\/script>/g, (_, code) => {
    const name = `assets/inline.${createHash("sha256").update(code).digest("hex").slice(0, 12)}.js`;
    mkdirSync(join(out, "assets"), { recursive: true });
    writeFileSync(join(out, name), code);
    return `<script src="${BASE}${name}"></script>`;
  });
}

/** A plugin of Vite: the pages are outside of web/, and import Vue from its node_modules. */
const packages = {
  name: "packages",
  enforce: "pre",
  resolveId(id, importer, options) {
    if (!importer?.startsWith(DOCS) || !/^vue(\/|$)/.test(id)) return null;
    return this.resolve(id, join(WEB, "package.json"), { ...options, skipSelf: true });
  },
};

export default defineConfig({
  title: "masscomm",
  description: "Mass notifications: who gets a message, why, and what happened",
  lang: "en",
  base: BASE,
  srcDir: "../../docs",
  outDir: "../dist-docs",
  cacheDir: "../node_modules/.cache/vitepress",
  rewrites: { "decisions/README.md": "decisions/index.md" },
  ignoreDeadLinks: [new RegExp(`^/${REFERENCE.replace(".html", "")}`)],
  metaChunk: true,
  vite: { plugins: [packages], build: { assetsInlineLimit: 0, chunkSizeWarningLimit: 2_000 } },
  markdown: { html: false, anchor: { slugify }, config: markdown },
  transformHtml: (code, _id, { siteConfig }) => externalScripts(code, siteConfig.outDir),
  buildEnd({ outDir }) {
    const folder = join(outDir, "api-reference");
    mkdirSync(folder, { recursive: true });
    copyFileSync(join(SITE, "api-reference.html"), join(folder, "index.html"));
    copyFileSync(join(DOCS, "openapi", "masscomm.json"), join(folder, "masscomm.json"));
    for (const path of linkedFiles) {
      mkdirSync(dirname(join(outDir, path)), { recursive: true });
      copyFileSync(join(DOCS, path), join(outDir, path));
    }
    const redoc = readFileSync(join(WEB, "node_modules", "redoc", "bundles", "redoc.standalone.js"), "utf8");
    writeFileSync(join(folder, "redoc.js"), redoc.replaceAll(LOGO, "data:image/svg+xml,"));
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "API reference", link: `/${REFERENCE}`, target: "_self" },
      { text: "Internals", link: `/${sidebar.internals[0].pages[0].replace(/\.md$/, "")}` },
    ],
    sidebar: [
      ...sidebar.users.map((each) => group(each, false)),
      ...[sidebar.runbooks, ...sidebar.internals].map((each) => group(each, true)),
    ],
  },
});
