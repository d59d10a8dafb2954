import { expect, test } from "vitest";
import de from "./de.json";
import en from "./en.json";
import { STATUSES } from "../api/types";

type Messages = { [name: string]: string | Messages };

function entries(messages: Messages, path = ""): [string, string][] {
  return Object.entries(messages).flatMap(([name, value]) =>
    typeof value === "string" ? [[path + name, value] as [string, string]] : entries(value, `${path}${name}.`),
  );
}

const placeholders = (text: string): string[] => [...new Set(text.match(/\{\w+\}/g))].sort();

test("both languages have the same messages with the same placeholders", () => {
  const found = (messages: Messages) => entries(messages).map(([path, text]) => [path, placeholders(text)]);
  expect(found(de)).toEqual(found(en));
});

test("each status has a name and an explanation", () => {
  for (const status of STATUSES) {
    expect(en.status).toHaveProperty(status);
    expect(en.statusHelp).toHaveProperty(status);
  }
});
