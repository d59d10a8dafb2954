import { expect, test } from "vitest";
import { rendered, RUNBOOKS, titleOf } from "./runbooks";

test("each runbook has a title and can be rendered", () => {
  expect(RUNBOOKS.size).toBeGreaterThan(10);
  for (const text of RUNBOOKS.values()) {
    expect(titleOf(text)).not.toBe("");
    expect(rendered(text)).toContain("<h2>");
    expect(rendered(text)).not.toContain("style=");
  }
});

test("HTML, images and scripts of a text are inert", () => {
  const html = rendered("<img src=x onerror=alert(1)> ![x](https://evil.example/x.png) [a](javascript:alert(1))");
  expect(html).not.toMatch(/<img|href=/);
});

test("a link to a runbook shows it, and other links are plain text", () => {
  expect(rendered("[Kafka](kafka.md)")).toContain('<a href="#/operations/alarms?runbook=kafka">Kafka</a>');
  expect(rendered("[out](https://evil.example) [page](../operations.md)")).not.toContain("href");
});
