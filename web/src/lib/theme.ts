import { ref } from "vue";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const STORED = "masscomm.theme";
const stored = localStorage.getItem(STORED);

export const theme = ref<Theme>(THEMES.find((each) => each === stored) ?? "system");

export function applyTheme(chosen: Theme = theme.value): void {
  theme.value = chosen;
  localStorage.setItem(STORED, chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}

/** Return the colour of a design token, as the browser computes it now. */
export function tokenColour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
