import { afterEach, expect, test, vi } from "vitest";
import emailPreview from "../parts/EmailPreview.vue?raw";
import { newDraft, type Draft } from "./draft";
import { Latest, previewContentOf, previewRequestFor, smsPrice } from "./preview";

function draft(changes: Partial<Draft> = {}): Draft {
  return { ...newDraft("1"), title: "Hello", body: "It works.", recipients: "42", ...changes };
}

afterEach(() => {
  vi.useRealTimers();
});

test("a preview has the content of the send, and no recipients or times", () => {
  expect(previewContentOf(draft({ channels: ["email"], locale: "de-AT", reference: "r" }))).toEqual({
    type: "announcement",
    club_id: 1,
    data: { title: "Hello", body: "It works." },
    channels: ["email"],
    locale: "de-AT",
  });
  const ofTemplate = draft({ mode: "template", template: "goal", data: [{ name: "team", value: "Reds" }] });
  expect(previewContentOf(ofTemplate)).toEqual({ type: "announcement", club_id: 1, template: "goal", data: { team: "Reds" } });
});

test("a preview is for a user, else for a language", () => {
  const content = previewContentOf(draft())!;
  expect(previewRequestFor(content, "", "de")).toEqual({ ...content, user: { locale: "de" } });
  expect(previewRequestFor(content, "42", "de")).toEqual({ ...content, user_id: 42 });
  expect(previewRequestFor(content, "x42")).toEqual(content);
});

test("an incomplete draft has no preview", () => {
  expect(previewContentOf(draft({ type: " " }))).toBeNull();
  expect(previewContentOf(draft({ type: "two words" }))).toBeNull();
  expect(previewContentOf(draft({ club: "x" }))).toBeNull();
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

test("the price of an SMS is a range over the countries", () => {
  const sms = { encoding: "GSM-7" as const, segments: 1, too_large: false, prices_as_of: "2026-11-01" };
  const countries = (...prices: number[]) => prices.map((usd) => ({ country: "DE", segments: 1, usd }));
  expect(smsPrice({ ...sms, countries: countries(0.2, 0.1) })).toBe("0.10–0.20");
  expect(smsPrice({ ...sms, countries: countries(0.0045) })).toBe("0.0045");
  expect(smsPrice({ ...sms, countries: [] })).toBeNull();
  expect(smsPrice(null)).toBeNull();
});
