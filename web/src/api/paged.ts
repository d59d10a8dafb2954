import { onScopeDispose, ref, type Ref } from "vue";

interface Page<Row> {
  rows: Row[];
  next_cursor: string | null;
}

export interface Paged<Row> {
  rows: Ref<Row[] | null>;
  cursor: Ref<string | null>;
  error: Ref<unknown>;
  load: () => Promise<void>;
  more: () => Promise<void>;
}

/** Read a list page by page. `load` begins again; a response that a later call has overtaken is ignored. */
export function usePaged<Row>(read: (cursor: string | null, signal: AbortSignal) => Promise<Page<Row>>): Paged<Row> {
  const rows = ref<Row[] | null>(null) as Ref<Row[] | null>;
  const cursor = ref<string | null>(null);
  const error = ref<unknown>(null);
  let controller = new AbortController();
  onScopeDispose(() => controller.abort());

  async function next(previous: Row[], from: string | null): Promise<void> {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      const page = await read(from, signal);
      if (signal.aborted) return;
      rows.value = [...previous, ...page.rows];
      cursor.value = page.next_cursor;
      error.value = null;
    } catch (failure) {
      if (!signal.aborted) error.value = failure;
    }
  }

  return { rows, cursor, error, load: () => next([], null), more: () => next(rows.value ?? [], cursor.value) };
}
