/** A category of sends as a form has it. */
import type { CapFields, Category, CategoryBody, CategoryFields, CategoryValues } from "../api/types";
import { idOf } from "./ids";
import { pairsOf } from "./webhooks";

/** In what a club differs; null: it is as the category. */
export interface ClubDraft {
  club: string;
  channels: string[] | null;
  optIn: string[] | null;
  /** As the caps of a category; without a line, it has those of the category. */
  caps: string;
}

export interface CategoryDraft {
  name: string;
  channels: string[];
  mandatory: boolean;
  optIn: string[];
  /** Lines such as `3/24h`, or `1/day,by_channel,group=ads`; `none`: no cap; without a line, the caps of the default category apply. */
  caps: string;
  /** Lines such as `de: Nachrichten`. */
  titles: string;
  clubs: ClubDraft[];
  retired: boolean;
  /** The entity tag of the category that was read; null: it is a new one. */
  etag: string | null;
}

export const newCategory = (): CategoryDraft => ({ name: "", channels: [], mandatory: false, optIn: [], caps: "", titles: "", clubs: [], retired: false, etag: null });

/** Return the caps in lines: null if there is no line, undefined if one is not a cap. The API checks their values. */
export function capsOf(text: string): CapFields[] | null | undefined {
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length === 0) return null;
  if (lines.join().trim() === "none") return [];
  const found = lines.map((line) => /^\s*(\d{1,9})\/(\w+)(,by_channel)?(?:,group=([^,\s]+))?\s*$/.exec(line));
  if (found.includes(null)) return undefined;
  return found.map((each) => ({ limit: Number(each![1]), window: each![2]!, by_channel: Boolean(each![3]), group: each![4] ?? null }));
}

/** Return caps in lines. */
export const linesOf = (caps: CapFields[] | null): string =>
  caps?.length === 0 ? "none" : (caps ?? []).map(({ limit, window, by_channel, group }) => `${limit}/${window}${by_channel ? ",by_channel" : ""}${group ? `,group=${group}` : ""}`).join("\n");

/** Return the draft of a category's latest version. */
export function draftOf({ type: name, versions, etag }: CategoryBody): CategoryDraft {
  const version = versions[0]!;
  const { channels, mandatory, opt_in, retired, caps } = version;
  const own = (values: string[], of: string[]): string[] | null => (values.join() === of.join() ? null : values);
  return {
    ...{ name, channels, mandatory, optIn: opt_in, retired, etag, caps: linesOf(caps) },
    titles: Object.entries(version.titles).map(([language, title]) => `${language}: ${title}`).join("\n"),
    clubs: version.clubs.map((club) => ({ club: String(club.club_id), channels: own(club.channels, channels), optIn: own(club.opt_in, opt_in), caps: linesOf(club.caps) === linesOf(caps) ? "" : linesOf(club.caps) })),
  };
}

/** Return the body of a request. A mandatory category needs no opt-in and has no caps. */
export function fieldsOf({ channels, mandatory, optIn, caps, titles, clubs, retired }: CategoryDraft): CategoryFields {
  const differing = ({ club, channels, optIn, caps }: ClubDraft) => ({
    club_id: idOf(club)!,
    ...(channels && { channels }),
    ...(optIn && !mandatory && { opt_in: optIn }),
    ...(caps.trim() && !mandatory && { caps: capsOf(caps)! }),
  });
  return { channels, mandatory, opt_in: mandatory ? [] : optIn, ...(caps.trim() && !mandatory && { caps: capsOf(caps)! }), titles: pairsOf(titles), clubs: clubs.map(differing), retired };
}

/** Return whether a draft has what the API needs. */
export const isComplete = ({ name, channels, caps, clubs }: CategoryDraft): boolean =>
  Boolean(name.trim() && channels.length && capsOf(caps) !== undefined) && clubs.every((each) => idOf(each.club) !== null && each.channels?.length !== 0 && capsOf(each.caps) !== undefined);

/** Return the names of the categories that a new send may have. */
export const offeredOf = (rows: readonly Category[]): string[] => rows.filter((row) => row.type !== "default" && !row.retired).map((row) => row.type);

/** Return whether a version is not valid yet. */
export const isAhead = ({ valid_from }: Pick<CategoryValues, "valid_from">, nowMs: number): boolean => valid_from !== null && Date.parse(valid_from) > nowMs;
