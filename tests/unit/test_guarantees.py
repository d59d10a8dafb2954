"""Each row of guarantees.md and permanent-answers.md has an id that a test carries, and no test carries another id."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {name: (ROOT / "docs" / "internals" / name).read_text() for name in ("guarantees.md", "permanent-answers.md")}
ID = re.compile(r"\| `([a-z0-9_]+\.[a-z0-9_]+)` \|$", re.MULTILINE)
IDS = [id for page in PAGES.values() for id in ID.findall(page)]


def carried(source: str) -> Iterator[str]:
    """The ids of the guarantee markers on the test functions of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Attribute(attr="guarantee"), args=ids):
                        yield from (ast.literal_eval(id) for id in ids)


@pytest.fixture(scope="module")
def all_carried() -> set[str]:
    return {id for file in (ROOT / "tests").rglob("*.py") for id in carried(file.read_text())}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_ends_with_an_id(page: str) -> None:
    rows = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    claims = [row for row in rows if not re.match(r"\|-|\| (sink|down|asked for|dependency) \|", row)]
    assert len(claims) > 20
    assert [row for row in claims if not ID.search(row)] == []


def test_ids_are_unique() -> None:
    assert [id for id, times in Counter(IDS).items() if times > 1] == []


def test_every_id_is_carried_by_a_test(all_carried: set[str]) -> None:
    assert sorted(set(IDS) - all_carried) == []


def test_every_marker_names_an_id_of_a_page(all_carried: set[str]) -> None:
    assert sorted(all_carried - set(IDS)) == []


def test_each_promise_names_rows() -> None:
    promises = re.findall(
        r"^\d+\. .+?(?=^\d+\. |^## )", (ROOT / "docs" / "guarantees.md").read_text(), re.DOTALL | re.MULTILINE
    )
    named = [re.findall(r"`([a-z0-9_]+\.[a-z0-9_]+)`", promise) for promise in promises]
    assert len(promises) == 10
    assert all(named)
    assert {id for ids in named for id in ids} - set(IDS) == set()


def test_only_markers_on_test_functions_count() -> None:
    source = '@mark.guarantee("a.b", "a.c")\ndef test_a(): ...\n@mark.guarantee("d.e")\ndef helper(): ...\n'
    assert list(carried(source)) == ["a.b", "a.c"]
