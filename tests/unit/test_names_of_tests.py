"""A test is named test_<condition>_<result>, in at most 60 characters and without the words that EXCLUDED lists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LENGTH = 60
EXCLUDED = re.compile(
    r"_(whoever|who|whom|whose|what|whatever|none|(some|any|every|no)body(s)?|tells?|told|telling|said|says"
    r"|beside|aside|asked|is_taken|comes?_again|goes_on)(?=_|$)"
)


def is_well_named(name: str) -> bool:
    return len(name) <= MAX_LENGTH and EXCLUDED.search(name) is None


def _tests(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_names_of_tests_are_short_and_plain() -> None:
    files = [file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    names = [(file.relative_to(ROOT), name) for file in files for name in _tests(file)]
    assert len(names) > 1000
    assert [each for each in names if not is_well_named(each[1])] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_due_record_is_released", True),
        ("test_somewhat_late_record_is_nonetheless_counted", True),
        (f"test_{'a' * 55}", True),
        (f"test_{'a' * 56}", False),
        ("test_what_is_due_is_released", False),
        ("test_record_that_nobody_reads_is_deleted", False),
        ("test_failed_record_comes_again", False),
        ("test_retry_is_told", False),
    ],
)
def test_excluded_or_long_name_is_found(name: str, expected: bool) -> None:
    assert is_well_named(name) is expected
