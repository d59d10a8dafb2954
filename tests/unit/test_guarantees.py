"""docs/guarantees.md and permanent-answers.md name a test in every row, and every test they name exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("guarantees.md", "permanent-answers.md")}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "".join(PAGES.values()))))


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_test_that_is_named_exists(file: str, function: str) -> None:
    assert function in _functions(ROOT / file)


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test(page: str) -> None:
    rows = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    claims = [row for row in rows if not re.match(r"\|-|\| (sink|down|asked for|dependency) \|", row)]
    assert len(claims) > 20
    assert [row for row in claims if not re.search(r"`tests/[\w/]+\.py::\w+` \|$", row)] == []
