"""docs/guarantees.md names a test in every row, and every test it names exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_test_that_is_named_exists(file: str, function: str) -> None:
    assert function in _functions(ROOT / file)


def test_every_row_names_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("|")]
    claims = [row for row in rows if not re.match(r"\|-|\| (sink|down|asked for) \|", row)]
    assert len(claims) > 20
    assert [row for row in claims if not re.search(r"`tests/[\w/]+\.py::\w+` \|$", row)] == []
