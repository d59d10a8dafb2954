"""Erasure in an environment that has counted nothing has no archive to erase from."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from masscomm.errors import Stop
from ops.erasure import __main__ as erasure
from ops.erasure.person import Person
from spark_metrics.archive import mark as marks

SETTINGS: Any = SimpleNamespace(archive_dir="s3://archive/records")


def erased(monkeypatch: pytest.MonkeyPatch, *, mark: tuple[str | None, bool], table: str | None) -> int:
    """Return the number of erased hours of an archive: the database's mark, and whether it has counted; the table's."""
    archive = SimpleNamespace(archive_id=lambda: table, replace_user=lambda *_: 1)
    monkeypatch.setattr(erasure, "spark_session", lambda _: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(erasure, "ArchiveTable", lambda *_: archive)
    for module in (erasure, marks):
        monkeypatch.setattr(module, "database_mark", lambda _: mark)
    connection: Any = None
    with ExitStack() as resources:
        return erasure._erase_records(SETTINGS, connection, resources, Person(club_id=1, user_id=2))


def test_environment_without_counts_has_nothing_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    assert erased(monkeypatch, mark=(None, False), table=None) == 0
    assert erased(monkeypatch, mark=("a", True), table="a") == 1


@pytest.mark.parametrize(("mark", "table"), [((None, True), None), ((None, False), "b"), (("a", True), None)])
def test_lost_or_foreign_archive_is_a_stop(
    monkeypatch: pytest.MonkeyPatch, mark: tuple[str | None, bool], table: str | None
) -> None:
    with pytest.raises(Stop):
        erased(monkeypatch, mark=mark, table=table)
