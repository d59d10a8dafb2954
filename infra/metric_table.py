"""`python -m infra.metric_table`: the vocabulary of metrics as the table of docs/observability.md, put there."""

from pathlib import Path

from masscomm.observability.metric_names import ALL, SERVICE

PAGE = Path(__file__).parents[1] / "docs" / "observability.md"
_BEGIN, _END = "<!-- metrics: made by `python -m infra.metric_table` -->", "<!-- end of metrics -->"


def table() -> str:
    """A row a metric."""
    rows = ["| metric | unit | dimensions | emitted by | meaning |", "|---|---|---|---|---|"]
    for metric in ALL.values():
        unit = f"{metric.unit.value} ({metric.kind.value})"
        emitted_by = ", ".join(metric.emitted_by) if metric.emitted_by else f"every {SERVICE}"
        rows.append(f"| `{metric.name}` | {unit} | {', '.join(metric.dimensions)} | {emitted_by} | {metric.meaning} |")
    return "\n".join(rows)


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ValueError where the page has no place for it."""
    before, found, rest = page.partition(_BEGIN)
    _, ended, after = rest.partition(_END)
    if not found or not ended:
        raise ValueError("the page has no place for the table of metrics")
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
