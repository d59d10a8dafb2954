import { expect, test } from "vitest";
import type { EventSource } from "../api/types";
import { draftOf, mappingOf, mayBeConstant, sourceDraftOf, sourceOf } from "./sources";

const MAPPING = {
  type: { value: "order.paid" },
  club_id: { path: "shop.tenant" },
  occurred_at: { path: "created", unit: "s" },
  data: { path: "data.object" },
};
const SOURCE = { id: "src_7_a", club_id: 7, club_ids: [7, 8], scheme: "stripe", mapping: MAPPING, description: "Shop", header: "", encoding: "hex", prefix: "", id_header: "" } as unknown as EventSource;

test("a mapping is the same after a form", () => {
  expect(mappingOf(draftOf(MAPPING))).toEqual(MAPPING);
});

test("a new source has the tenant as a constant number", () => {
  const draft = draftOf(null, "9007199254740993");
  draft.type.text = " order.paid ";
  expect(mappingOf(draft)).toEqual({ type: { value: "order.paid" }, club_id: { value: 9007199254740993n } });
});

test("each event has its own id, time and data", () => {
  expect(["event_id", "occurred_at", "data"].map((field) => mayBeConstant(field as "data"))).toEqual([false, false, false]);
  expect(mayBeConstant("unit")).toBe(true);
});

test("a changed source keeps its tenants, and its secret if none is entered", () => {
  const body = sourceOf(sourceDraftOf(SOURCE), draftOf(MAPPING), "1", SOURCE);
  expect(body).toEqual({ club_id: 7, club_ids: [7, 8], description: "Shop", scheme: "stripe", mapping: MAPPING });
});

test("a header belongs to the scheme hmac alone", () => {
  const draft = { ...sourceDraftOf(null), secret: "s", header: " X-Shop-Hmac ", encoding: "base64" };
  expect(sourceOf({ ...draft, scheme: "github" }, draftOf(null, "7"), "7", null)).not.toHaveProperty("header");
  expect(sourceOf({ ...draft, scheme: "hmac" }, draftOf(null, "7"), "7", null)).toMatchObject({ club_id: 7, secret: "s", header: "x-shop-hmac", encoding: "base64" });
});
