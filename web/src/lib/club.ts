import { ref, watch } from "vue";

const STORED = "masscomm.club";

/** The club (tenant) that was last chosen, as text. */
export const club = ref(localStorage.getItem(STORED) ?? "1");

watch(club, (chosen) => localStorage.setItem(STORED, chosen));
