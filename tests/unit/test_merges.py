"""No committed file contains markers of a merge conflict."""

import re
from collections.abc import Iterator
from pathlib import Path

from local.devstack.config import ROOT

ROOMS = ("docs", "schemas", "examples", "functions", "masscomm", "ops", "requirements", "spark_metrics")
MARK = re.compile(rb"^(<{7} |>{7} |\|{7} )", re.MULTILINE)


def texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from ROOT.glob("*.toml")
    yield ROOT / "Makefile"
    for room in ROOMS:
        yield from (path for path in (ROOT / room).rglob("*") if path.is_file() and path.suffix != ".pyc")


def test_no_text_holds_both_sides_of_a_conflict() -> None:
    found = list(texts())
    assert ROOT / "docs" / "quick-start.md" in found
    assert [str(path.relative_to(ROOT)) for path in found if MARK.search(path.read_bytes())] == []
