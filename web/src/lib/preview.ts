import type { Preview, PreviewRequest } from "../api/types";
import { contentOf, type Draft } from "./draft";
import { idOf } from "./ids";

export type Message = Preview["messages"][number];

/** Return what determines the messages of a draft; null if its category or its club is missing. */
export function previewContentOf(draft: Draft): PreviewRequest | null {
  return /^[A-Za-z0-9_.:-]{1,128}$/.test(draft.type.trim()) && idOf(draft.club) !== null ? contentOf(draft) : null;
}

/**
 * Return the request for the messages of a content.
 *
 * @param userId The user who would get the messages; a text that is not an id stands for a user of `locale`.
 */
export function previewRequestFor(content: PreviewRequest, userId: string, locale: string | null = null): PreviewRequest {
  const request = { ...content };
  const user = idOf(userId);
  if (user !== null) request.user_id = user;
  else if (locale !== null) request.user = { locale };
  return request;
}

/** Return the price of an SMS in dollars, from the least to the largest one; null if no country has a price. */
export function smsPrice(sms: Message["sms"]): string | null {
  const prices = (sms?.countries ?? []).map((each) => each.usd);
  if (!prices.length) return null;
  // A segment costs a fraction of a cent in some countries.
  const [least, most] = [Math.min(...prices), Math.max(...prices)].map((usd) => usd.toFixed(Math.abs(usd) < 0.1 ? 4 : 2));
  return least === most ? least! : `${least}–${most}`;
}

/** Runs the latest task once no other was given for a pause; the previous task is aborted. */
export class Latest {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running = new AbortController();

  constructor(private readonly pauseMs: number) {}

  run(task: (signal: AbortSignal) => Promise<void>, pauseMs = this.pauseMs): void {
    this.stop();
    const running = (this.running = new AbortController());
    this.timer = setTimeout(() => void task(running.signal), pauseMs);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.running.abort();
  }
}
