import { afterEach, expect, test, vi } from "vitest";
import emailPreview from "../parts/EmailPreview.vue?raw";
import { newDraft, type Draft } from "./draft";
import { Latest, previewRequestOf } from "./preview";

function draft(changes: Partial<Draft> = {}): Draft {
  return { ...newDraft("1"), title: "Hello", body: "It works.", recipients: "42", ...changes };
}

afterEach(() => {
  vi.useRealTimers();
});

test("a preview has the content of the send, and no recipients or times", () => {
  expect(previewRequestOf(draft({ channels: ["email"], locale: "de-AT", reference: "r" }), "")).toEqual({
    type: "announcement",
    club_id: 1,
    data: { title: "Hello", body: "It works." },
    channels: ["email"],
    locale: "de-AT",
  });
  const ofTemplate = draft({ mode: "template", template: "goal", data: [{ name: "team", value: "Reds" }] });
  expect(previewRequestOf(ofTemplate, "42")).toEqual({
    type: "announcement", club_id: 1, template: "goal", data: { team: "Reds" }, user_id: 42,
  });
});

test("a preview is for a user, else for a language", () => {
  expect(previewRequestOf(draft(), "", "de")).toMatchObject({ user: { locale: "de" } });
  expect(previewRequestOf(draft(), "42", "de")).toMatchObject({ user_id: 42 });
  expect(previewRequestOf(draft(), "42", "de")).not.toHaveProperty("user");
});

test("an incomplete draft has no preview, and a user that is no number is left out", () => {
  expect(previewRequestOf(draft({ type: " " }), "")).toBeNull();
  expect(previewRequestOf(draft({ type: "two words" }), "")).toBeNull();
  expect(previewRequestOf(draft({ club: "x" }), "")).toBeNull();
  expect(previewRequestOf(draft(), "x42")).not.toHaveProperty("user_id");
});

test("only the latest of several tasks runs", async () => {
  vi.useFakeTimers();
  const latest = new Latest(400);
  const ran: string[] = [];
  latest.run(async () => void ran.push("first"));
  vi.advanceTimersByTime(399);
  latest.run(async () => void ran.push("second"));
  await vi.advanceTimersByTimeAsync(400);
  expect(ran).toEqual(["second"]);
});

test("a task that runs is aborted by the next one and by the end", async () => {
  vi.useFakeTimers();
  const latest = new Latest(400);
  const signals: AbortSignal[] = [];
  const task = async (signal: AbortSignal): Promise<void> => void signals.push(signal);
  latest.run(task);
  await vi.advanceTimersByTimeAsync(400);
  latest.run(task);
  expect(signals.map((signal) => signal.aborted)).toEqual([true]);
  await vi.advanceTimersByTimeAsync(400);
  latest.stop();
  expect(signals.map((signal) => signal.aborted)).toEqual([true, true]);
});

test("the HTML of an e-mail is in a frame without scripts, forms and windows", () => {
  const frames = emailPreview.match(/<iframe[^>]*>/g) ?? [];
  expect(frames).toHaveLength(1);
  // Of all permissions, only the origin, which gives no power without scripts. A browser test has hostile HTML.
  expect(frames[0]).toContain('sandbox="allow-same-origin"');
  expect(frames[0]).toContain(':srcdoc="EMPTY"');
  expect(emailPreview).not.toContain("v-html");
});
