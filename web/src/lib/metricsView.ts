/** The state of the metrics page, and its form in the page's address. */

import { GRAIN_MS, grainsOf, MAX_BUCKETS, RANGE_NAMES, RANGES, spanOf, WHOLE, type Grain, type Range, type Span, type Zoom } from "./spans";

export interface MetricsView {
  range: Range;
  /** The span, once a part of it is shown: it no longer ends now, so that a shared address shows the same. */
  fixed: Span | null;
  grain: Grain;
  club: string;
  type: string;
  channel: string;
  compare: boolean;
  zoom: Zoom;
}

type Query = Record<string, unknown>;

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const time = (value: unknown): number | null => Date.parse(text(value)) || null;
const iso = (at: number | null | undefined): string | undefined => (at == null ? undefined : new Date(at).toISOString());

/** Return the state in an address. Values that the page does not know are left out. */
export function viewOf(query: Query): MetricsView {
  const range = RANGE_NAMES.find((name) => name === query.range) ?? "lastHour";
  const [startMs, endMs] = [time(query.start), time(query.end)];
  const asked = startMs !== null && endMs !== null && startMs < endMs ? { startMs, endMs } : null;
  const grains = grainsOf(asked ? asked.endMs - asked.startMs : RANGES[range].ms);
  const grain = grains.find((each) => each === query.grain) ?? (asked ? grains[0]! : RANGES[range].grain);
  const fixed = asked && aligned(asked, grain);
  const [from, until] = [time(query.from), time(query.until)];
  return {
    range,
    fixed,
    grain,
    club: text(query.club),
    type: text(query.type),
    channel: text(query.channel),
    compare: query.compare === "1",
    zoom: fixed && from !== null && until !== null && from < until && from < fixed.endMs && until > fixed.startMs ? { from, until } : WHOLE,
  };
}

/** Return the address's form of a state. */
export function queryOf(view: MetricsView): Record<string, string> {
  const values = {
    range: view.fixed ? undefined : view.range,
    start: iso(view.fixed?.startMs),
    end: iso(view.fixed?.endMs),
    grain: view.grain,
    club: view.club,
    type: view.type,
    channel: view.channel,
    compare: view.compare ? "1" : undefined,
    from: iso(view.zoom.from),
    until: iso(view.zoom.until),
  };
  return Object.fromEntries(Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1])));
}

/** Return the span of a state at a time. */
export const shownSpan = (view: MetricsView, nowMs: number): Span => view.fixed ?? spanOf(view.range, view.grain, nowMs);

/** Return the span as whole buckets; null if it has more of them than a response. */
function aligned(span: Span, grain: Grain): Span | null {
  const step = GRAIN_MS[grain];
  const found = { startMs: Math.floor(span.startMs / step) * step, endMs: Math.ceil(span.endMs / step) * step };
  return (found.endMs - found.startMs) / step <= MAX_BUCKETS ? found : null;
}
