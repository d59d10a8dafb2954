"""Whether the directory is complete is checked for the generation that look-ups use."""

from typing import Any, cast

import pytest

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import FixedClock
from masscomm.directory.client import OpenSearch
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.users import DirectoryPosition
from masscomm.errors import Retry

NOW = 1_700_000_000_000


class Cluster:
    """Two generations with empty indices; answers: the generation to which the aliases point."""

    def __init__(self) -> None:
        self.answers = "g1"
        self.positions = {"g1": NOW - 60_000, "g2": NOW - 60_000}
        self.refreshed: list[str] = []
        self.indices = self

    def get_alias(self, *, name: str) -> dict[str, Any]:
        return {f"{table}-{self.answers}": {"aliases": {table: {}}} for table in name.split(",")}

    def refresh(self, *, index: str) -> dict[str, Any]:
        self.refreshed.append(index)
        return {"_shards": {"failed": 0}}

    def mget(self, *, body: dict[str, Any]) -> dict[str, Any]:
        return {"docs": [self._document(each["_index"], each["_id"]) for each in body["docs"]]}

    def search(self, **_: Any) -> dict[str, Any]:
        return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": []}}

    def _document(self, index: str, name: str) -> dict[str, Any]:
        if index == "directory_state":
            source = {"lsn": 5, "ts_ms": self.positions[name.removeprefix("position-")]}
            return {"_index": index, "_id": name, "_version": 1, "found": True, "_source": source}
        where = f"{index}-{self.answers}" if index in captured_tables() else index
        return {"_index": where, "_id": name, "found": False}


class Directory:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.progress = {"g1": InMemoryCdcProgress(), "g2": InMemoryCdcProgress()}
        for each in self.progress.values():
            each.lsn = 5
        self.directory = OpenSearchDirectory(
            cast(OpenSearch, self.cluster), progress=self.progress.__getitem__, clock=FixedClock(), wait_s=lambda: 0.1
        )


def test_the_generation_that_answers_is_confirmed() -> None:
    made = Directory()
    made.cluster.positions["g2"] = NOW + 1_000
    with pytest.raises(Retry):
        made.directory.confirm(NOW)  # look-ups use g1, which is behind, although g2 is not
    made.cluster.positions["g1"] = NOW + 2_000
    assert made.directory.confirm(NOW) == DirectoryPosition(lsn=5, ts_ms=NOW + 2_000)
    assert made.progress["g2"].asked == 0
    assert made.cluster.refreshed == ["devices-g1,notification_templates-g1"]


@pytest.mark.guarantee("directory.unknown_only_when_complete")
@pytest.mark.kills(guard="directory.one_generation")
@pytest.mark.parametrize("look_up", ["users", "user_settings", "devices", "templates"])
def test_changed_generation_is_a_retry_not_an_unknown_user(look_up: str) -> None:
    made = Directory()
    made.cluster.positions["g1"] = NOW + 2_000
    made.directory.confirm(NOW)
    asked: list[Any] = [(7, "news", "push")] if look_up == "templates" else [1]
    getattr(made.directory, look_up)(asked)
    made.cluster.answers = "g2"
    with pytest.raises(Retry):
        getattr(made.directory, look_up)(asked)
    assert not made.directory.is_confirmed(NOW)
    with pytest.raises(Retry):
        made.directory.confirm(NOW)  # look-ups use g2, which is behind
    made.cluster.positions["g2"] = NOW + 2_000
    made.directory.confirm(NOW)
    getattr(made.directory, look_up)(asked)


class _Mixed(Cluster):
    def get_alias(self, *, name: str) -> dict[str, Any]:
        tables = enumerate(name.split(","))
        return {f"{table}-g{1 + number % 2}": {"aliases": {table: {}}} for number, table in tables}


def test_aliases_of_two_generations_are_a_retry() -> None:
    made = Directory()
    made.cluster.__class__ = _Mixed
    with pytest.raises(Retry, match="aliases"):
        made.directory.confirm(NOW)
