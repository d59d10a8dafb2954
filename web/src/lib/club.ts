import { ref, watch } from "vue";

const STORED = "masscomm.club";

/** The clubs (tenants) of the person, as text; none: every club. */
export const clubs = ref<readonly string[]>([]);
/** The club that was last chosen, as text. */
export const club = ref(localStorage.getItem(STORED) ?? "1");

watch(club, (chosen) => localStorage.setItem(STORED, chosen));

/** Note the clubs of the person who signed in. A club that is none of them is no longer chosen. */
export function useClubs(own: readonly string[]): void {
  clubs.value = own;
  if (own[0] !== undefined && !own.includes(club.value)) club.value = own[0];
}
