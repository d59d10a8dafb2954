import { expect, test } from "vitest";
import openapi from "../../../docs/openapi/masscomm.json?raw";
import de from "./de.json";
import en from "./en.json";

const document = JSON.parse(openapi) as {
  components: { schemas: { ProblemBody: { properties: { code: { "x-texts": Record<string, string> } } } } };
};
const texts = document.components.schemas.ProblemBody.properties.code["x-texts"];
const placeholders = (text: string): string[] => [...new Set(text.match(/\{\w+\}/g))].sort();

test.each([
  ["en", en.problem],
  ["de", de.problem],
])("each text of the API has a message in %s with parameters of the text", (_, messages: Record<string, string>) => {
  expect(Object.keys(texts).length).toBeGreaterThan(50);
  expect(Object.keys(messages).sort()).toEqual(Object.keys(texts).sort());
  expect(Object.keys(texts).map((code) => [code, placeholders(messages[code]!)])).toEqual(Object.keys(texts).map((code) => [code, placeholders(texts[code]!)]));
});
