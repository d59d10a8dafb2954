"""Tables of the page docs/internals/capacity.md, and the texts of their values."""

from collections.abc import Iterable, Sequence
from math import inf


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown. The first column is aligned to the left, the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figures(value: float) -> str:
    """Return the value as text with at most three significant digits."""
    if value == inf:
        return "at none"
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if value else "0"


def dollars(value: float) -> str:
    """Return an amount in US dollars as text, without cents if it is large."""
    if value >= 100:
        return f"${value:,.0f}"
    return f"${value:,.2f}" if value >= 0.1 or not value else f"${value:.2g}"
