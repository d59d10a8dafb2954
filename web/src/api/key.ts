import { ref, watch } from "vue";

const STORED = "masscomm.key";

/** Take the key from an address such as `…/#key=mc_…`, as `make run` prints it, and remove it from the address. */
function keyOfAddress(): string | null {
  const key = /^#key=([\w-]+)$/.exec(location.hash)?.[1] ?? null;
  if (key) history.replaceState(null, "", location.pathname);
  return key;
}

/** The caller's API key. It is kept until the browser's tab is closed. */
export const apiKey = ref("");

watch(apiKey, (key) => (key ? sessionStorage.setItem(STORED, key) : sessionStorage.removeItem(STORED)), { flush: "sync" });
apiKey.value = keyOfAddress() ?? sessionStorage.getItem(STORED) ?? "";
