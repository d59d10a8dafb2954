/** A category of sends as a form has it. */
import type { CapFields, Category, CategoryBody, CategoryFields, CategoryValues, DigestFields } from "../api/types";
import { idOf } from "./ids";
import { pairsOf } from "./webhooks";

/** In what a club differs; null: it is as the category. */
export interface ClubDraft {
  club: string;
  channels: string[] | null;
  optIn: string[] | null;
  /** As the caps of a category; without a line, it has those of the category. */
  caps: string;
  /** As the digest of a category, or `none`; empty: that of the category. */
  digest: string;
}

export interface CategoryDraft {
  name: string;
  channels: string[];
  mandatory: boolean;
  /** Whether its sends use the critical lane. */
  critical: boolean;
  optIn: string[];
  /** Lines such as `3/24h`, or `1/day,by_channel,group=ads`; `none`: no cap; without a line, the caps of the default category apply. */
  caps: string;
  /** Such as `comments_digest/1h,key=post`, or `daily/08:00`; without it, each notification goes out by itself. */
  digest: string;
  /** Whether the text of a push that is too large is shortened. */
  shorten: boolean;
  /** Lines such as `de: Nachrichten`. */
  titles: string;
  descriptions: string;
  clubs: ClubDraft[];
  retired: boolean;
  /** The entity tag of the category that was read; null: it is a new one. */
  etag: string | null;
}

export const newCategory = (): CategoryDraft => ({ name: "", channels: [], mandatory: false, critical: false, optIn: [], caps: "", digest: "", shorten: false, titles: "", descriptions: "", clubs: [], retired: false, etag: null });

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

/** Return the digest in a text: null if it is empty, undefined if it is not a digest. The API checks its values. */
export function digestIn(text: string): DigestFields | null | undefined {
  if (!text.trim()) return null;
  const found = /^\s*([^/,\s]+)\/([^,\s]+)(?:,key=([^,]+?))?(?:,list=(\d{1,9}))?\s*$/.exec(text);
  if (!found) return undefined;
  const [, template, time, key, list] = found;
  return { template: template!, ...(time!.includes(":") ? { at: time! } : { window: time! }), ...(key && { key }), ...(list && { list: Number(list) }) };
}

/** Return the digest of a tenant in a text, `none` for none; undefined if it is not a digest. */
export const digestOf = (text: string): DigestFields | null | undefined => (text.trim() === "none" ? null : digestIn(text));

/** Return the text of a digest. */
export const textOf = (digest: DigestFields | null): string =>
  digest ? `${digest.template}/${digest.window ?? digest.at}${digest.key ? `,key=${digest.key}` : ""}${digest.list ? `,list=${digest.list}` : ""}` : "";

const textLines = (texts: Record<string, string>): string => Object.entries(texts).map(([language, text]) => `${language}: ${text}`).join("\n");

/** Return whether caps and a digest may apply: not to a mandatory or critical category. */
export const mayWait = ({ mandatory, critical }: Pick<CategoryDraft, "mandatory" | "critical">): boolean => !mandatory && !critical;

/** Return the draft of a category's latest version. */
export function draftOf({ type: name, versions, etag }: CategoryBody): CategoryDraft {
  const version = versions[0]!;
  const { channels, mandatory, critical, opt_in, retired, caps, digest, shorten } = version;
  const own = (values: string[], of: string[]): string[] | null => (values.join() === of.join() ? null : values);
  return {
    ...{ name, channels, mandatory, critical, optIn: opt_in, retired, etag, shorten, caps: linesOf(caps), digest: textOf(digest) },
    titles: textLines(version.titles),
    descriptions: textLines(version.descriptions),
    clubs: version.clubs.map((club) => ({ club: String(club.club_id), channels: own(club.channels, channels), optIn: own(club.opt_in, opt_in), caps: linesOf(club.caps) === linesOf(caps) ? "" : linesOf(club.caps), digest: textOf(club.digest) === textOf(digest) ? "" : textOf(club.digest) || "none" })),
  };
}

/** Return the body of a request. A mandatory category needs no opt-in; it and a critical one have no caps and no digest. */
export function fieldsOf({ channels, mandatory, critical, optIn, caps, digest, shorten, titles, descriptions, clubs, retired }: CategoryDraft): CategoryFields {
  const waits = mayWait({ mandatory, critical });
  const differing = ({ club, channels, optIn, caps, digest }: ClubDraft) => ({
    club_id: idOf(club)!,
    ...(channels && { channels }),
    ...(optIn && !mandatory && { opt_in: optIn }),
    ...(caps.trim() && waits && { caps: capsOf(caps)! }),
    ...(digest.trim() && waits && { digest: digestOf(digest)! }),
  });
  const rules = { ...(caps.trim() && waits && { caps: capsOf(caps)! }), ...(digest.trim() && waits && { digest: digestIn(digest)! }) };
  return { channels, mandatory, critical, opt_in: mandatory ? [] : optIn, ...rules, shorten, titles: pairsOf(titles), descriptions: pairsOf(descriptions), clubs: clubs.map(differing), retired };
}

/** Return whether a draft has what the API needs. */
export const isComplete = ({ name, channels, caps, digest, clubs }: CategoryDraft): boolean =>
  Boolean(name.trim() && channels.length && capsOf(caps) !== undefined && digestIn(digest) !== undefined) && clubs.every((each) => idOf(each.club) !== null && each.channels?.length !== 0 && capsOf(each.caps) !== undefined && digestOf(each.digest) !== undefined);

/** Return the names of the categories that a new send may have. */
export const offeredOf = (rows: readonly Category[]): string[] => rows.filter((row) => row.type !== "default" && !row.retired).map((row) => row.type);

/** Return whether a version is not valid yet. */
export const isAhead = ({ valid_from }: Pick<CategoryValues, "valid_from">, nowMs: number): boolean => valid_from !== null && Date.parse(valid_from) > nowMs;
