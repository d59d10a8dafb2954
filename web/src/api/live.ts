import { onScopeDispose, ref, type Ref } from "vue";
import { awaitCounts } from "./client";
import { nextPause, Problem } from "./http";

const WAIT_S = 20;

/**
 * Call `refresh` now and after each batch that the metrics job counts, by long polls, until `refresh` returns false or
 * the component is closed. While the page is hidden, nothing is requested.
 */
export function useLive(refresh: (signal: AbortSignal) => Promise<boolean>): { error: Ref<unknown>; restart: () => void } {
  const error = ref<unknown>(null);
  let controller = new AbortController();

  async function run(signal: AbortSignal): Promise<void> {
    let cursor: string | null = null;
    let pauseMs = 0;
    while (!signal.aborted) {
      try {
        await visible(signal);
        const position = await awaitCounts(cursor, cursor === null ? 0 : WAIT_S, signal);
        if (position.changed || cursor === null) {
          const goOn = await refresh(signal);
          error.value = null;
          if (!goOn) return;
        }
        cursor = position.cursor;
        pauseMs = 0;
      } catch (failure) {
        if (signal.aborted) return;
        error.value = failure;
        if (failure instanceof Problem && [400, 401, 403].includes(failure.status)) return;
        pauseMs = nextPause(pauseMs, failure);
        await pause(pauseMs, signal);
      }
    }
  }

  function restart(): void {
    controller.abort();
    controller = new AbortController();
    void run(controller.signal);
  }

  onScopeDispose(() => controller.abort());
  restart();
  return { error, restart };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function visible(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const check = (): void => {
      if (document.visibilityState !== "visible" && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check, { once: true });
  });
}
