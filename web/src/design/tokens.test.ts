import { expect, test } from "vitest";

const FILES = import.meta.glob<string>(["../**/*.vue", "./base.css"], { query: "?raw", import: "default", eager: true });
const COLOUR = /#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch|light-dark)\(/i;
const SCALED = /^(?:font(?:-size|-weight)?|line-height|letter-spacing|(?:padding|margin|gap|row-gap|column-gap|border-radius)(?:-.+)?)$/;
/** A length or a number that is none of the scale's; hairlines of 1px, 0 and 1 are everywhere the same. */
const RAW = /(?<![\w-])-?(?:\d*\.)?\d+(?:rem|em|px|vh|vw)?(?![\w%-])/g;
const PLAIN = new Set(["0", "1", "1px", "-1px"]);

/** Return the declarations of a file that have a colour or a size of their own. */
function rawValues(path: string, text: string): string[] {
  const styles = path.endsWith(".vue") ? [...text.matchAll(/<style[^>]*>(.*?)<\/style>/gs)].map((found) => found[1]).join("\n") : text;
  const declarations = [...styles.replace(/\/\*.*?\*\//gs, "").matchAll(/([\w-]+)\s*:\s*([^;{}]+);/g)];
  return declarations
    .filter(([, name, value]) => COLOUR.test(value!) || (SCALED.test(name!) && (value!.replace(/var\([^)]*\)/g, "").match(RAW) ?? []).some((each) => !PLAIN.has(each))))
    .map(([, name, value]) => `${path}: ${name}: ${value}`);
}

test("colours, type and spacing are from tokens.css alone", () => {
  expect(Object.keys(FILES).length).toBeGreaterThan(20);
  expect(FILES["./base.css"]).toContain("var(--text)");
  expect(Object.entries(FILES).flatMap(([path, text]) => rawValues(path, text))).toEqual([]);
});

test.each(["color: #fff", "background: rgb(0 0 0 / 45%)", "padding: 0.1rem var(--space-2)", "font-size: 3rem", "margin: -4rem 0", "font-weight: 600"])(
  "%s is a value of its own",
  (declaration) => {
    expect(rawValues("a.css", `p { ${declaration}; }`)).toHaveLength(1);
  },
);

test.each(["padding: 0 var(--space-4)", "margin: -1px", "border: 1px solid var(--line)", "width: min(30rem, 100%)", "line-height: 1"])("%s is not", (declaration) => {
  expect(rawValues("a.css", `p { ${declaration}; }`)).toEqual([]);
});
