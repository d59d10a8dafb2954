import { expect, test } from "vitest";
import { EventReader } from "./events";

const TEXT = ': no change\n\nid: a\ndata: {"n":\ndata: 1}\n\nretry: 5000\n\nid: b\nevent: message\ndata: ü\n\n';
const EVENTS = [
  { id: "a", data: '{"n":\n1}' },
  { id: "b", data: "ü" },
];

test.each([1, 2, 7, 1_000])("events are the same in pieces of %i characters", (length) => {
  const reader = new EventReader();
  const pieces = TEXT.match(new RegExp(`[^]{1,${length}}`, "g")) ?? [];
  expect(pieces.flatMap((piece) => reader.push(piece))).toEqual(EVENTS);
  expect(reader.retryMs).toBe(5000);
});

test("lines may end with a carriage return and a line feed, which may arrive apart", () => {
  const reader = new EventReader();
  expect([...reader.push("id: a\r"), ...reader.push("\ndata: x\r\n\r"), ...reader.push("\n")]).toEqual([{ id: "a", data: "x" }]);
});

test("an event without its end is not one", () => {
  expect(new EventReader().push("id: a\ndata: x\n")).toEqual([]);
});
