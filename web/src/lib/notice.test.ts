import { ApiError, ConnectionError, type FieldError, type Problem } from "masscomm-client";
import { expect, test, vi } from "vitest";
import openapi from "../../../docs/openapi/masscomm.json?raw";

vi.stubGlobal("localStorage", { getItem: () => "en" });
vi.stubGlobal("document", { documentElement: {}, createElement: () => ({}) });
vi.stubGlobal("navigator", { languages: [] });
const { messageOf } = await import("./notice");
const { apiText } = await import("./words");
const document = JSON.parse(openapi) as {
  components: { schemas: { ProblemBody: { properties: { code: { "x-texts": Record<string, string> } } } } };
};
const texts = document.components.schemas.ProblemBody.properties.code["x-texts"];

const refusal = (status: number, detail: string, errors: FieldError[] = [], problem: Partial<Problem> = {}): ApiError =>
  new ApiError(status, detail, errors, null, { detail, ...problem });

test("a further attempt is announced only where the page makes one", () => {
  expect(messageOf(new ConnectionError("down"), false)).toEqual([{ key: "error.unreachable" }]);
  expect(messageOf(new ConnectionError("down"), true)).toEqual([{ key: "error.unreachable" }, { key: "error.live" }]);
});

test("an error of the page itself is not the API's", () => {
  expect(messageOf(new TypeError("x is undefined"), true)).toEqual([{ key: "error.internal" }, { text: "TypeError: x is undefined" }]);
});

test("a problem with a code is shown in the console's words", () => {
  const problem = refusal(409, "has ended", [], { code: "send_ended", parameters: {} });
  expect(messageOf(problem, false)).toEqual([{ text: "The send has ended." }]);
});

test("a refusal says the field and the reason of each error once", () => {
  const missing = { field: "club_id", message: "is missing", code: "missing", parameters: {} };
  const wrong = { field: "url", message: "must be a URL", code: "url_invalid", parameters: {} };
  const detail = { code: "fields_invalid", parameters: { fields: "club_id, url" } };
  const expected = ["These fields cannot be used: club_id, url.", "club_id: is missing", "url: must be a URL"];
  expect(messageOf(refusal(400, "…", [missing, wrong], detail), false)).toEqual(expected.map((text) => ({ text })));
  const first = { code: "field_invalid", parameters: { field: "url", reason: "must be a URL" }, texts: { reason: { code: "url_invalid", parameters: {} } } };
  expect(messageOf(refusal(400, "…", [wrong], first), false)).toEqual([{ text: "url: must be a URL" }]);
});

test.each(Object.entries(texts))("the notice of a refusal has the reason %s", (code, words) => {
  const parameters = Object.fromEntries([...words.matchAll(/\{(\w+)\}/g)].map((found, index) => [found[1]!, `value ${index}`]));
  const said = messageOf(refusal(422, "…", [{ field: "some_field", message: words, code, parameters }]), false);
  const reason = apiText({ code, parameters }, "unknown");
  expect(said).toContainEqual({ text: `some_field: ${reason}` });
  for (const value of Object.values(parameters)) expect(reason).toContain(value);
});

test("a problem without a code is shown in the API's words", () => {
  expect(messageOf(refusal(409, "has ended"), true)).toEqual([{ text: "has ended" }]);
  expect(messageOf(refusal(503, "away"), true)).toEqual([{ text: "away" }, { key: "error.live" }]);
  expect(messageOf(refusal(403, "no scope"), false)).toEqual([{ key: "error.forbidden" }, { text: "no scope" }]);
  expect(messageOf(refusal(401, "expired"), false)).toEqual([{ key: "signin.ended" }]);
});

test("the page of a proxy is shown by its status", () => {
  expect(messageOf(new ApiError(502, "<html>", []), false)).toEqual([{ text: "HTTP 502" }]);
});
