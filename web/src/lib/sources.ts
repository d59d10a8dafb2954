/** Sources of incoming webhooks as a form has them. */
import { idOf } from "./ids";
import type { EventSource, SourceFields } from "../api/types";

export const SCHEMES = ["standard", "stripe", "github", "hmac"] as const;
export type Scheme = (typeof SCHEMES)[number];
export const ENCODINGS = ["hex", "base64"] as const;
export const TIME_UNITS = ["iso8601", "s", "ms"] as const;

/** The fields of an event that a mapping has, as the API names them. */
export const MAPPED = ["type", "club_id", "event_id", "occurred_at", "unit", "key", "data"] as const;
export type MappedField = (typeof MAPPED)[number];
/** Each event has its own value of these, so that they cannot be constant. */
const PATH_ONLY: readonly MappedField[] = ["event_id", "occurred_at", "data"];

/** The origin of a field: a constant, or a path in the body. Without a text, the event has the default. */
export interface Origin {
  kind: "value" | "path";
  text: string;
}
export type MappingDraft = Record<MappedField, Origin> & { time: (typeof TIME_UNITS)[number] };

export const mayBeConstant = (field: MappedField): boolean => !PATH_ONLY.includes(field);

/** Return the draft of a mapping; of none, that of a new source. */
export function draftOf(mapping: Record<string, unknown> | null, club = ""): MappingDraft {
  const given = (mapping ?? { type: { value: "" }, club_id: { value: club } }) as Record<string, { value?: unknown; path?: string; unit?: string } | undefined>;
  const origin = (field: MappedField): Origin => {
    const found = given[field];
    if (!found) return { kind: "path", text: "" };
    return found.path === undefined ? { kind: "value", text: String(found.value) } : { kind: "path", text: found.path };
  };
  const origins = Object.fromEntries(MAPPED.map((field) => [field, origin(field)])) as Record<MappedField, Origin>;
  const time = TIME_UNITS.find((unit) => unit === given["occurred_at"]?.unit) ?? "iso8601";
  return { ...origins, time };
}

/** Return the mapping of a draft. A club is a number; the API refuses another text. */
export function mappingOf(draft: MappingDraft): SourceFields["mapping"] {
  const written = MAPPED.filter((field) => draft[field].text.trim());
  return Object.fromEntries(
    written.map((field) => {
      const { kind, text } = draft[field];
      const value = field === "club_id" ? (idOf(text) ?? text.trim()) : text.trim();
      const unit = field === "occurred_at" ? { unit: draft.time } : {};
      return [field, kind === "value" ? { value } : { path: text.trim(), ...unit }];
    }),
  );
}

export interface SourceDraft {
  description: string;
  scheme: Scheme;
  /** Empty: a source that exists keeps its own. */
  secret: string;
  header: string;
  encoding: string;
  prefix: string;
  id_header: string;
}

/** Return the draft of a source without its secret; of none, that of a new one. */
export const sourceDraftOf = (source: EventSource | null): SourceDraft => ({
  description: source?.description ?? "",
  scheme: SCHEMES.find((scheme) => scheme === source?.scheme) ?? "standard",
  secret: "",
  header: source?.header ?? "",
  encoding: source?.encoding ?? "hex",
  prefix: source?.prefix ?? "",
  id_header: source?.id_header ?? "",
});

/** Return the body of a request for a source. Fields of the scheme hmac belong to no other; `club_ids` are those of before. */
export function sourceOf(draft: SourceDraft, mapping: MappingDraft, club: string, before: EventSource | null): SourceFields {
  const { scheme, secret, header, encoding, prefix, id_header } = draft;
  return {
    club_id: before?.club_id ?? idOf(club)!,
    ...(before && { club_ids: before.club_ids }),
    description: draft.description.trim(),
    scheme,
    ...(secret && { secret }),
    ...(scheme === "hmac" && { header: header.trim().toLowerCase(), encoding, prefix: prefix.trim(), id_header: id_header.trim().toLowerCase() }),
    mapping: mappingOf(mapping),
  };
}
