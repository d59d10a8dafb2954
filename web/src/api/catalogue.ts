import { onScopeDispose, ref, watch, type Ref } from "vue";
import { idOf } from "../lib/ids";
import { Latest } from "../lib/preview";
import { TYPING_PAUSE_MS } from "../lib/typing";
import { listCategories, listTemplates } from "./client";
import type { Category, Template } from "./types";

const PAGE = 100;
/** Templates beyond these pages are not offered. */
const MOST_PAGES = 10;

export interface Catalogue {
  categories: Ref<Category[]>;
  /** The templates of the club, and those for every club. */
  templates: Ref<Template[]>;
  error: Ref<unknown>;
  /** Whether both lists were read. */
  loaded: Ref<boolean>;
  load: () => void;
}

/** The categories, and the templates of a club, read again when the club changes. An invalid club has no templates. */
export function useCatalogue(club: () => string): Catalogue {
  const categories = ref<Category[]>([]);
  const templates = ref<Template[]>([]);
  const error = ref<unknown>(null);
  const loaded = ref(false);
  const latest = new Latest(TYPING_PAUSE_MS);

  async function templatesOf(clubId: string, signal: AbortSignal): Promise<Template[]> {
    const found: Template[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const { rows, next_cursor: next }: { rows: Template[]; next_cursor: string | null } = await listTemplates({ club_id: clubId, limit: PAGE, cursor }, signal);
      found.push(...rows);
      if (next === null) break;
      cursor = next;
    }
    return found;
  }

  async function read(signal: AbortSignal): Promise<void> {
    try {
      const [listed, found] = await Promise.all([
        listCategories(signal),
        idOf(club()) !== null ? templatesOf(club(), signal) : [],
      ]);
      if (signal.aborted) return;
      [categories.value, templates.value, error.value, loaded.value] = [listed.rows, found, null, true];
    } catch (failure) {
      if (!signal.aborted) error.value = failure;
    }
  }

  const load = (): void => latest.run(read, 0);
  watch(club, () => latest.run(read));
  onScopeDispose(() => latest.stop());
  load();
  return { categories, templates, error, loaded, load };
}
