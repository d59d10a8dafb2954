import { onScopeDispose, ref, watch, type Ref } from "vue";
import { idOf } from "../lib/ids";
import { Latest } from "../lib/preview";
import { TYPING_PAUSE_MS } from "../lib/typing";
import { listCategories, listTemplates } from "./client";
import type { Category, Template } from "./types";

/** Further templates are not offered. */
const MOST_TEMPLATES = 1_000;

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

  async function read(signal: AbortSignal): Promise<void> {
    try {
      const clubId = idOf(club());
      const [listed, found] = await Promise.all([
        listCategories(signal),
        clubId !== null ? listTemplates({ club_id: [clubId] }, MOST_TEMPLATES, signal) : [],
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
