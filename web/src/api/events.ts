/** Server-sent events, read from a response's body: EventSource cannot send the access token. */

export interface ServerEvent {
  id: string | null;
  data: string;
}

/** Splits the text of a stream into events. `retryMs` is the pause before the next connection, if the server named one. */
export class EventReader {
  retryMs: number | null = null;
  #rest = "";
  #id: string | null = null;
  #data: string[] = [];

  /** Return the events that a further piece of text completes. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length) events.push({ id: this.#id, data: this.#data.join("\n") });
        this.#data = [];
        continue;
      }
      const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
      if (name === "data") this.#data.push(value ?? "");
      else if (name === "id") this.#id = value ?? "";
      else if (name === "retry" && /^\d+$/.test(value ?? "")) this.retryMs = Number(value);
    }
    return events;
  }
}
