import { onScopeDispose, ref, type Ref } from "vue";

interface Page<Row> {
  rows: Row[];
  next_cursor: string | null;
}

/** A change that a person makes. The promise has a sentence for the person, if there is something to say. */
type Change = () => Promise<string | void>;

export interface Paged<Row> {
  rows: Ref<Row[] | null>;
  cursor: Ref<string | null>;
  error: Ref<unknown>;
  /** Whether the list is read again; its rows are those of before. */
  busy: Ref<boolean>;
  /** Begin again. Rows that are shown stay until the answer. */
  load: () => Promise<void>;
  /** Read the first page again and keep the later rows. Calls during a request are one call after it. */
  refresh: () => Promise<void>;
  /** Whether a change of the rows is being made, and the sentence of the last one. */
  changing: Ref<boolean>;
  done: Ref<string>;
  /** The question before a change that cannot be undone. */
  asked: Ref<{ text: string; answer: string; change: Change } | null>;
  /** Make one change at a time. */
  change: (change: Change) => Promise<void>;
  /** Append the next page. A call while a page is being appended does nothing. */
  more: () => Promise<void>;
}

type Task = "refresh" | "more";

/** Return the rows after a first page was read again: that page, and the shown rows that follow its last one. */
export function refreshed<Row>(first: Row[], shown: Row[], keyOf: (row: Row) => unknown): { rows: Row[]; joined: boolean } {
  const keys = new Set(first.map(keyOf));
  const last = shown.findIndex((row) => first.length > 0 && keyOf(row) === keyOf(first.at(-1)!));
  const later = last < 0 ? [] : shown.slice(last + 1).filter((row) => !keys.has(keyOf(row)));
  return { rows: [...first, ...later], joined: later.length > 0 };
}

/**
 * Read a list page by page. `load` begins again; a response that it has overtaken is ignored.
 *
 * @param keyOf The identity of a row, for `refresh`.
 */
export function usePaged<Row>(
  read: (cursor: string | null, signal: AbortSignal) => Promise<Page<Row>>,
  keyOf: (row: Row) => unknown = (row) => row,
): Paged<Row> {
  const rows = ref<Row[] | null>(null) as Ref<Row[] | null>;
  const cursor = ref<string | null>(null);
  const error = ref<unknown>(null);
  const busy = ref(false);
  const changing = ref(false);
  const done = ref("");
  const asked: Paged<Row>["asked"] = ref(null);
  let controller = new AbortController();
  /** The tasks that run or wait, each at most once; one after the other, so that none starves another. */
  let tasks = new Map<Task, Promise<void>>();
  let last: Promise<void> = Promise.resolve();
  onScopeDispose(() => controller.abort());

  async function attempt(
    from: string | null,
    signal: AbortSignal,
    take: (page: Page<Row>) => void,
    failed: () => void = () => undefined,
  ): Promise<void> {
    busy.value = true;
    try {
      const page = await read(from, signal);
      if (signal.aborted) return;
      take(page);
      error.value = null;
    } catch (failure) {
      if (signal.aborted) return;
      error.value = failure;
      failed();
    } finally {
      if (!signal.aborted) busy.value = false;
    }
  }

  function load(): Promise<void> {
    controller.abort();
    controller = new AbortController();
    tasks = new Map();
    const show = (found: Row[] | null, next: string | null): void => {
      rows.value = found;
      cursor.value = next;
    };
    return (last = attempt(
      null,
      controller.signal,
      (page) => show(page.rows, page.next_cursor),
      // The rows of another filter are not shown under this one.
      () => show(null, null),
    ));
  }

  function queued(task: Task, run: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const [earlier, { signal }, own] = [tasks.get(task), controller, tasks];
    if (earlier) return earlier;
    const promise = last.then(async () => {
      // A refresh that was asked for during this one is another one.
      if (task === "refresh") own.delete(task);
      if (!signal.aborted) await run(signal);
      if (task === "more") own.delete(task);
    });
    own.set(task, promise);
    return (last = promise);
  }

  const refresh = (): Promise<void> =>
    queued("refresh", (signal) =>
      attempt(null, signal, (page) => {
        const { rows: found, joined } = refreshed(page.rows, rows.value ?? [], keyOf);
        rows.value = found;
        if (!joined) cursor.value = page.next_cursor;
      }),
    );

  const more = (): Promise<void> =>
    queued("more", (signal) =>
      attempt(cursor.value, signal, (page) => {
        const known = new Set((rows.value ?? []).map(keyOf));
        rows.value = [...(rows.value ?? []), ...page.rows.filter((row) => !known.has(keyOf(row)))];
        cursor.value = page.next_cursor;
      }),
    );

  async function change(make: Change): Promise<void> {
    if (changing.value) return;
    [changing.value, done.value, error.value] = [true, "", null];
    try {
      done.value = (await make()) ?? "";
      asked.value = null;
    } catch (failure) {
      error.value = failure;
    } finally {
      changing.value = false;
    }
  }

  return { rows, cursor, error, busy, changing, done, asked, change, load, refresh, more };
}
