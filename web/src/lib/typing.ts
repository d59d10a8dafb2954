/** The pause in typing after which an entered text is used, in milliseconds. */
export const TYPING_PAUSE_MS = 400;

/** Passes an entered text on once: after a pause of the typing, or when the entry ends. */
export class Typing {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private text: string | null = null;

  constructor(private readonly pass: (text: string) => void) {}

  type(text: string): void {
    clearTimeout(this.timer);
    this.text = text;
    this.timer = setTimeout(() => this.end(), TYPING_PAUSE_MS);
  }

  /** Pass on a text that waits. */
  end(): void {
    const text = this.text;
    this.stop();
    if (text !== null) this.pass(text);
  }

  /** Forget a text that waits. */
  stop(): void {
    clearTimeout(this.timer);
    this.text = null;
  }
}
