"""`make nightly` runs each test that `make test` leaves out."""

import re

import pytest

from local.devstack.config import ROOT

NIGHTLY = re.search(r"^nightly:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
MARK = re.compile(r"\bpytest\.mark\.nightly\b")
PATHS = [ROOT / path for path in re.findall(r"\btests/\S+", NIGHTLY[1] if NIGHTLY else "")]


def test_paths_of_nightly_exist() -> None:
    assert PATHS
    assert [path for path in PATHS if not path.exists()] == []


@pytest.mark.parametrize("root", ["tests/unit", "tests/component", "tests/e2e", "tests/upgrade"])
def test_tests_marked_nightly_are_in_a_path_of_nightly(root: str) -> None:
    marked = [file for file in (ROOT / root).rglob("test_*.py") if MARK.search(file.read_text())]
    assert [file for file in marked if not any(file.is_relative_to(path) for path in PATHS)] == []
