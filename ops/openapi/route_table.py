"""Writes the routes of the API as a table to docs/api.md: `python -m ops.openapi.route_table`."""

from pathlib import Path

from masscomm.http.scopes import ROUTE_SCOPES
from ops.marked_part import with_part
from ops.openapi.document import document

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
_BEGIN, _END = "<!-- routes: made by `python -m ops.openapi.route_table` -->", "<!-- end of routes -->"
# The tags that callers need first.
_FIRST = ("Sends", "Templates", "Users")


def table() -> str:
    """Return the table in Markdown, with one row for each route, by tag."""
    rows = ["| about | route | scope | what it does |", "|---|---|---|---|"]
    for tag, method, path, operation in sorted(_routes(), key=lambda route: (route[0] not in _FIRST, route[0])):
        scope = ROUTE_SCOPES.get((method, path))
        needed = f"`{scope}`" if scope is not None else "none"
        rows.append(f"| {tag} | `{method} {path}` | {needed} | {operation['summary'].rstrip('.')} |")
    return "\n".join(rows)


def _routes() -> list[tuple[str, str, str, dict[str, str]]]:
    """Return the tag, the method, the path and the operation of each route, in the order of the document."""
    return [
        (operation["tags"][0], method.upper(), path, operation)
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
        if method != "parameters"
    ]


def with_table(page: str) -> str:
    """Return the page with its table replaced. Raises ValueError if it has no markers for the table."""
    return with_part(page, _BEGIN, f"\n\n{table()}\n\n", _END)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
