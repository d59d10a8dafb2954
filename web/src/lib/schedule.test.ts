import { expect, test } from "vitest";
import type { Send } from "../api/types";
import { waitsForItsTime } from "./schedule";

const NOW_MS = Date.parse("2026-11-24T12:00:00Z");
const send = (changes: { send_at?: string; scheduled?: number; complete?: boolean; cancelled?: boolean; paced?: boolean }): Send =>
  ({
    send_at: changes.send_at ?? null,
    complete: changes.complete ?? false,
    cancellation: changes.cancelled ? {} : null,
    pace: changes.paced ? {} : null,
    send_at_local: null,
    totals: { scheduled: changes.scheduled ?? 0 },
  }) as Send;

test.each([
  ["its time is ahead, also before it is counted", { send_at: "2026-11-24T12:00:01Z" }, true],
  ["its time has passed, and a notification is still counted as scheduled", { send_at: "2026-11-24T12:00:00Z", scheduled: 3 }, false],
  ["notifications are scheduled for a time that is not known", { scheduled: 3 }, true],
  ["notifications wait for their minutes", { scheduled: 3, paced: true }, false],
  ["it has no time", {}, false],
  ["it is cancelled", { send_at: "2026-11-24T13:00:00Z", cancelled: true }, false],
  ["it has ended", { send_at: "2026-11-24T13:00:00Z", complete: true }, false],
])("a send waits for its time: %s", (_, changes, waits) => {
  expect(waitsForItsTime(send(changes), NOW_MS)).toBe(waits);
});
