/** A category of sends as a form has it. */
import type { Category, CategoryFields, CategoryValues } from "../api/types";
import { idOf } from "./ids";
import { pairsOf } from "./webhooks";

/** In what a club differs; null: it is as the category. */
export interface ClubDraft {
  club: string;
  channels: string[] | null;
  optIn: string[] | null;
}

export interface CategoryDraft {
  name: string;
  channels: string[];
  mandatory: boolean;
  optIn: string[];
  /** Lines such as `de: Nachrichten`. */
  titles: string;
  clubs: ClubDraft[];
  retired: boolean;
}

export const newCategory = (): CategoryDraft => ({ name: "", channels: [], mandatory: false, optIn: [], titles: "", clubs: [], retired: false });

/** Return the draft of a version. */
export function draftOf(name: string, version: CategoryValues): CategoryDraft {
  const { channels, mandatory, opt_in, retired } = version;
  const own = (values: string[], of: string[]): string[] | null => (values.join() === of.join() ? null : values);
  return {
    ...{ name, channels, mandatory, optIn: opt_in, retired },
    titles: Object.entries(version.titles).map(([language, title]) => `${language}: ${title}`).join("\n"),
    clubs: version.clubs.map((club) => ({ club: String(club.club_id), channels: own(club.channels, channels), optIn: own(club.opt_in, opt_in) })),
  };
}

/** Return the body of a request. A mandatory category needs no opt-in. */
export function fieldsOf({ channels, mandatory, optIn, titles, clubs, retired }: CategoryDraft): CategoryFields {
  const differing = ({ club, channels, optIn }: ClubDraft) => ({
    club_id: idOf(club)!,
    ...(channels && { channels }),
    ...(optIn && !mandatory && { opt_in: optIn }),
  });
  return { channels, mandatory, opt_in: mandatory ? [] : optIn, titles: pairsOf(titles), clubs: clubs.map(differing), retired };
}

/** Return whether a draft has what the API needs. */
export const isComplete = ({ name, channels, clubs }: CategoryDraft): boolean =>
  Boolean(name.trim() && channels.length) && clubs.every((each) => idOf(each.club) !== null && each.channels?.length !== 0);

/** Return the names of the categories that a new send may have. */
export const offeredOf = (rows: readonly Category[]): string[] => rows.filter((row) => row.type !== "default" && !row.retired).map((row) => row.type);

/** Return whether a version is not valid yet. */
export const isAhead = ({ valid_from }: Pick<CategoryValues, "valid_from">, nowMs: number): boolean => valid_from !== null && Date.parse(valid_from) > nowMs;
