"""The page with the results: a table and plots."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Any

from lab.benchmarks.chain.svg import Drawing
from lab.benchmarks.chain.usage import EMULATION, FUNCTIONS, SERVERS, group_of

_PALETTES = {
    FUNCTIONS: ("#b7410e", "#e4572e", "#f08a4b", "#f3a712", "#f7c873", "#fbe3b4"),
    SERVERS: ("#1f4e79", "#2e75b6", "#5b9bd5", "#8fb8de", "#bdd7ee", "#deebf7"),
    EMULATION: ("#7f7f7f", "#a6a6a6", "#c9c9c9", "#dedede"),
}
_WIDTH, _LABELS, _BAR, _GAP, _LETTER = 1100, 300, 22, 10, 6.2
_STYLE = (
    "body{font-family:system-ui,sans-serif;margin:2em} td,th{padding:.2em .8em;text-align:right}"
    " td:first-child,th:first-child{text-align:left}"
)

type Results = Mapping[str, Mapping[str, Any]]


def page(document: Mapping[str, Any]) -> str:
    results: Results = document["scenarios"]
    ratio = _naive_ratio(results)
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8><title>masscomm: the whole chain</title>",
            f"<style>{_STYLE}</style><h1>masscomm: the whole chain</h1>",
            f"<p>{escape(document['measured_at'])}, {escape(document['machine'])}, {document['runs']} runs: medians,"
            " with minimum and maximum. A recipient's notification ends at the provider's socket.</p>",
            _table(results),
            *([f"<p>{ratio}</p>"] if ratio else []),
            "<h2>Recipients a second</h2>",
            spread_bars(results, [("per_s", "#2e75b6")]),
            "<h2>Latency in milliseconds: p50 and p99</h2>",
            spread_bars(results, [("p50_ms", "#5b9bd5"), ("p99_ms", "#1f4e79")]),
            "<h2>Processor time of a recipient in microseconds: functions and servers</h2>",
            stacked_bars(results, (FUNCTIONS, SERVERS)),
            "<h2>Processor time of emulation: Lambda host, provider stand-in, emitter</h2>",
            stacked_bars(results, (EMULATION,)),
            f"<p>Without load, in milliseconds a second: {escape(_at_rest(document))}.</p>",
            "</html>\n",
        ]
    )


def spread_bars(results: Results, measures: Sequence[tuple[str, str]]) -> str:
    """Return bars of medians, one row for each scenario and measure, with a line from minimum to maximum.

    The scale is logarithmic.
    """
    rows = [(name, key, colour, one[key]) for name, one in results.items() for key, colour in measures]
    largest = max((value["max"] for *_, value in rows), default=1)
    drawing = _drawing(len(rows))
    for number, (name, key, colour, value) in enumerate(rows):
        y = _GAP + number * (_BAR + _GAP)
        label = name if len(measures) == 1 else f"{name}, {key.removesuffix('_ms')}"
        drawing.text(_LABELS - 8, y + 15, label, anchor="end")
        drawing.rect(_LABELS, y, _x(value["median"], largest), _BAR, colour, f"{value['median']:,.4g}")
        low, high = (_LABELS + _x(value[end], largest) for end in ("min", "max"))
        drawing.line(low, y + _BAR / 2, high, y + _BAR / 2, "#000")
        for x in (low, high):
            drawing.line(x, y + 6, x, y + _BAR - 6, "#000")
        text = f"{value['median']:,.0f} ({value['min']:,.0f} to {value['max']:,.0f})"
        drawing.text(high + 8, y + 15, text)
    return drawing.render()


def stacked_bars(results: Results, groups: Sequence[str]) -> str:
    """Return a bar for each scenario, divided among the roles of these groups.

    The bars are scaled to the same length, because a send of one recipient costs a hundred times as much as one
    recipient of a broadcast. Each bar shows its total.
    """
    drawing = _drawing(2 * len(results))
    for number, (name, one) in enumerate(results.items()):
        parts = sorted(
            ((role, value["median"]) for role, value in one["processor_us"].items() if group_of(role) in groups),
            key=lambda each: (groups.index(group_of(each[0])), -each[1]),
        )
        total = sum(us for _, us in parts) or 1.0
        y = _GAP + 2 * number * (_BAR + _GAP)
        drawing.text(_LABELS - 8, y + 15, name, anchor="end")
        drawing.text(_LABELS - 8, y + 31, f"{total:,.0f} µs", anchor="end", bold=True)
        x, drawn = float(_LABELS), dict.fromkeys(groups, 0)
        for role, us in parts:
            group = group_of(role)
            palette = _PALETTES[group]
            width = us / total * (_WIDTH - _LABELS - 20)
            drawing.rect(x, y, width, _BAR, palette[min(drawn[group], len(palette) - 1)], f"{role}: {us:,.0f} µs")
            label = f"{role} {us:,.0f}"
            if width > _LETTER * len(label):
                drawing.text(x + 2, y + _BAR + 13, label, size=11)
            drawn[group] += 1
            x += width
    return drawing.render()


def _at_rest(document: Mapping[str, Any]) -> str:
    return ", ".join(f"{role} {value:.0f}" for role, value in document["at_rest_ms"].items() if value >= 1)


def _naive_ratio(results: Results) -> str:
    """Return a sentence that compares the naive chain with the largest broadcast; empty if one is missing."""
    own = [one for name, one in results.items() if name.startswith("broadcast of") and "provider" not in name]
    naive = [one for name, one in results.items() if name.startswith("naive")]
    if not own or not naive:
        return ""
    largest = max(own, key=lambda one: one["recipients"]["median"])
    ratios = [naive[0]["group_us"][FUNCTIONS]["median"] / largest["group_us"][FUNCTIONS]["median"]]
    ratios.append(largest["per_s"]["median"] / naive[0]["per_s"]["median"])
    return (
        f"The naive chain takes {ratios[0]:.1f} times the processor time of masscomm's functions; masscomm's broadcast"
        f" of {largest['recipients']['median']:,.0f} runs at {ratios[1]:.1f} times its rate."
    )


def _drawing(rows: int) -> Drawing:
    return Drawing(_WIDTH, _GAP + rows * (_BAR + _GAP))


def _x(value: float, largest: float) -> float:
    usable = _WIDTH - _LABELS - 220
    return max(1.0, log10(1 + value) / log10(1 + largest) * usable)


def _table(results: Results) -> str:
    heads = (
        *("", "a second", "p50 ms", "p99 ms", "functions µs", "servers µs", "emulation µs", "functions MB"),
        *("records", "OpenSearch requests", "DynamoDB requests"),
    )
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for name, one in results.items():
        groups = one["group_us"]
        memory = sum(value["median"] for role, value in one["memory_mb"].items() if group_of(role) == FUNCTIONS)
        cells = [
            *(f"{one[key]['median']:,.0f}" for key in ("per_s", "p50_ms", "p99_ms")),
            *(f"{groups[group]['median']:,.0f}" for group in (FUNCTIONS, SERVERS, EMULATION)),
            f"{memory:,.0f}",
            *(_sum(one[key]) for key in ("records", "directory_requests", "dynamodb_requests")),
        ]
        rows.append(f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(rows)}</table><p>Records and requests are those of each recipient.</p>"


def _sum(values: Mapping[str, Mapping[str, float]]) -> str:
    return f"{sum(value['median'] for value in values.values()):.3g}" if values else ""
