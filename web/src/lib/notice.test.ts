import { expect, test, vi } from "vitest";
import { Problem, Unreachable } from "../api/http";

vi.stubGlobal("localStorage", { getItem: () => "en" });
vi.stubGlobal("document", { documentElement: {}, createElement: () => ({}) });
vi.stubGlobal("navigator", { languages: [] });
const { messageOf } = await import("./notice");

test("a further attempt is announced only where the page makes one", () => {
  expect(messageOf(new Unreachable("down"), false)).toEqual([{ key: "error.unreachable" }]);
  expect(messageOf(new Unreachable("down"), true)).toEqual([{ key: "error.unreachable" }, { key: "error.live" }]);
});

test("an error of the page itself is not the API's", () => {
  expect(messageOf(new TypeError("x is undefined"), true)).toEqual([{ key: "error.internal" }, { text: "TypeError: x is undefined" }]);
});

test("a problem with a code is shown in the console's words", () => {
  const problem = new Problem(409, "has ended", [], null, { code: "send_ended", parameters: {} });
  expect(messageOf(problem, false)).toEqual([{ text: "The send has ended." }]);
});

test("a problem without a code is shown in the API's words", () => {
  expect(messageOf(new Problem(409, "has ended", [], null), true)).toEqual([{ text: "has ended" }]);
  expect(messageOf(new Problem(503, "away", [], 5), true)).toEqual([{ text: "away" }, { key: "error.live" }]);
  expect(messageOf(new Problem(403, "no scope", [], null), false)).toEqual([{ key: "error.forbidden" }, { text: "no scope" }]);
  expect(messageOf(new Problem(401, "expired", [], null), false)).toEqual([{ key: "signin.ended" }]);
});
