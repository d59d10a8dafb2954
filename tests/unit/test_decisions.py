"""docs/decisions has a complete index, and no number elsewhere is not an accepted decision."""

import re
from pathlib import Path

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


def test_index_lists_every_record_in_order() -> None:
    assert len(ROWS) == len(INDEX)
    assert [row["number"] for row in ROWS] == sorted({row["number"] for row in ROWS})
    assert [row["file"] for row in ACCEPTED.values()] == [record.name for record in RECORDS]
    assert [row["title"] for row in ACCEPTED.values()] == [record.read_text().splitlines()[0][6:] for record in RECORDS]


def test_every_cited_decision_is_accepted() -> None:
    wrong = {
        name: numbers - ACCEPTED.keys()
        for name in files_of_repository()
        if (name.endswith((".py", ".md", ".yaml", ".sql", ".avsc", ".toml")) or name == "Makefile")
        and name not in ("docs/decisions/README.md", "tests/unit/test_decisions.py")
        and (numbers := cited((ROOT / name).read_text())) - ACCEPTED.keys()
    }
    assert wrong == {}
