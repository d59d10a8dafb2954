import type { Preview, PreviewRequest } from "../api/types";
import { contentOf, type Draft } from "./draft";

export type Message = Preview["messages"][number];

/**
 * Return the request for the messages of a draft; null if its category or its club is missing.
 *
 * @param userId The user who would get the messages; a text that is no id stands for a user of `locale`.
 */
export function previewRequestOf(draft: Draft, userId: string, locale: string | null = null): PreviewRequest | null {
  if (!/^[A-Za-z0-9_.:-]{1,128}$/.test(draft.type.trim()) || !/^[1-9]\d{0,14}$/.test(draft.club.trim())) return null;
  const request: PreviewRequest = contentOf(draft);
  if (/^[1-9]\d{0,14}$/.test(userId.trim())) request.user_id = Number(userId);
  else if (locale !== null) request.user = { locale };
  return request;
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
