import { createI18n } from "vue-i18n";
import de from "./de.json";
import en from "./en.json";

export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

const STORED = "masscomm.language";

function preferred(): Language {
  const stored = localStorage.getItem(STORED);
  const wanted = stored ? [stored] : navigator.languages;
  return wanted.map((tag) => tag.slice(0, 2)).find((tag): tag is Language => tag in LANGUAGES) ?? "en";
}

export const i18n = createI18n({
  legacy: false,
  locale: preferred(),
  fallbackLocale: "en",
  messages: { en, de },
});

export function useLanguage(language: Language): void {
  i18n.global.locale.value = language;
  localStorage.setItem(STORED, language);
  document.documentElement.lang = language;
}

document.documentElement.lang = i18n.global.locale.value;
