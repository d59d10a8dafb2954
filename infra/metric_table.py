"""Writes the list of metrics as a table to docs/observability.md: `python -m infra.metric_table`."""

from pathlib import Path

from masscomm.observability.metric_names import ALL, SERVICE
from ops.marked_part import with_part

PAGE = Path(__file__).parents[1] / "docs" / "observability.md"
_BEGIN, _END = "<!-- metrics: made by `python -m infra.metric_table` -->", "<!-- end of metrics -->"


def table() -> str:
    """Return the table in Markdown, with one row for each metric."""
    rows = ["| metric | unit | dimensions | emitted by | meaning |", "|---|---|---|---|---|"]
    for metric in ALL.values():
        unit = f"{metric.unit.value} ({metric.kind.value})"
        emitted_by = ", ".join(metric.emitted_by) if metric.emitted_by else f"every {SERVICE}"
        rows.append(f"| `{metric.name}` | {unit} | {', '.join(metric.dimensions)} | {emitted_by} | {metric.meaning} |")
    return "\n".join(rows)


def with_table(page: str) -> str:
    """Return the page with its table replaced. Raises ValueError if it has no markers for the table."""
    return with_part(page, _BEGIN, f"\n\n{table()}\n\n", _END)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
