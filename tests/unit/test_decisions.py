"""docs/decisions: short records, a complete index, and no number elsewhere that is not an accepted decision."""

import re
from pathlib import Path

import pytest

from tests.support.prose import files_of_repository

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
ROW = re.compile(
    r"^\| \[?(?P<number>\d{3})(?:\]\((?P<file>[^)]+)\))? \| (?P<title>[^|]+) \| (?P<status>accepted|superseded)"
    r" \| \d{4}-\d\d-\d\d \| (?P<line>[^|]+) \|$"
)
INDEX = [line for line in (FOLDER / "README.md").read_text().splitlines() if re.match(r"\| \[?\d", line)]
ROWS = [row for row in map(ROW.match, INDEX) if row]
ACCEPTED = {row["number"]: row for row in ROWS if row["status"] == "accepted"}


def cited(text: str) -> set[str]:
    """The decision numbers that a text cites: a path or link below decisions/, or "decision NNN"."""
    return {path or number for path, number in re.findall(r"decisions/(\d{3})|\bdecisions? (\d{3})\b", text)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_record_has_its_three_parts_in_25_lines(record: Path) -> None:
    lines = record.read_text().splitlines()
    assert lines[0].startswith(f"# {record.name[:3]} ")
    assert [line.split("**")[1] for line in lines if line.startswith("**")] == [
        "Context.",
        "Decision.",
        "Consequences.",
    ]
    assert len(lines) <= 25
    assert len(record.read_text()) <= 25 * 120


def test_at_most_35_records_are_accepted() -> None:
    assert len(RECORDS) <= 35


def test_index_lists_every_record_in_order() -> None:
    assert len(ROWS) == len(INDEX)
    assert [row["number"] for row in ROWS] == sorted({row["number"] for row in ROWS})
    assert [row["file"] for row in ACCEPTED.values()] == [record.name for record in RECORDS]
    assert [row["title"] for row in ACCEPTED.values()] == [record.read_text().splitlines()[0][6:] for record in RECORDS]


def test_superseded_decision_names_its_successor() -> None:
    for row in ROWS:
        if row["status"] == "superseded":
            assert row["file"] is None
            assert cited(row["line"].replace("](", "](decisions/")) <= ACCEPTED.keys()
            assert "](" in row["line"]


def test_every_cited_decision_is_accepted() -> None:
    wrong = {
        name: numbers - ACCEPTED.keys()
        for name in files_of_repository()
        if (name.endswith((".py", ".md", ".yaml", ".sql", ".avsc", ".toml")) or name == "Makefile")
        and name not in ("docs/decisions/README.md", "tests/unit/test_decisions.py")
        and (numbers := cited((ROOT / name).read_text())) - ACCEPTED.keys()
    }
    assert wrong == {}


def test_citation_is_found_as_path_link_or_number() -> None:
    assert cited("docs/decisions/011, [x](decisions/012-x.md) and decision 013; number 014") == {"011", "012", "013"}
