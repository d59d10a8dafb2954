"""Rows of tables with a key of several columns reach the directory and the store of directory_state under one id."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from directory_state.feed import Applier
from directory_state.store import Store, prepare, source_of
from masscomm.directory.layers import related_to
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs
from tests.support.harness.cdc_consumer import Consumer
from tests.support.inputs.debezium_records import record
from tests.support.inputs.optional_tables import ENTRIES, mapped

TABLE = "tenant_user_settings"


@pytest.fixture(autouse=True)
def _mapped() -> Iterator[None]:
    with mapped(*ENTRIES):
        yield


type Change = Callable[[], KafkaRecord]


def change(op: str, lsn: int, club_id: int, channels: str | None = '{"push": false}') -> Change:
    key = {"user_id": 1, "club_id": club_id}
    row: dict[str, Any] = {**key, "channels": channels, "categories": None}
    value = {"op": op, "source": {"lsn": lsn, "ts_ms": 1}, "before": row, "after": None if op == "d" else row}
    return lambda: record(TABLE, key, value)


def tombstone(club_id: int) -> Change:
    return lambda: record(TABLE, {"user_id": 1, "club_id": club_id}, None, produced_ms=1)


def in_opensearch(*batches: list[KafkaRecord]) -> set[tuple[int, int]]:
    consumer = Consumer()
    for batch in batches:
        consumer.run(*batch)
    directory = consumer.directory()
    found = directory.users_and_layers([1], [], related_to([([1], 7, None), ([1], 8, None)]))
    return set(found.tenant_users)


def in_store(folder: Path, *batches: list[KafkaRecord]) -> set[tuple[int, int]]:
    prepare(folder, generations=["g1"], topic_ids={}, now_ms=0)
    store = Store(folder, writes=True)
    for batch in batches:
        applier = Applier(["g1"], Codec(InMemorySchemaRegistry()), logs.logger("directory_state"))
        with store.writing() as writer:
            for each in batch:
                applier.apply(writer, each, applier.prepare(each))
    with store.reading() as reader:
        rows = zip((7, 8), reader.values_of_table(TABLE, "g1", ["1:7", "1:8"]), strict=True)
        found = {(1, club_id) for club_id, row in rows if row is not None and not source_of(row).get("deleted")}
    store.close()
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([[change("r", 1, 7), change("c", 5, 8)]], {7, 8}, id="inserted"),
        pytest.param([[change("c", 5, 7)], [change("d", 6, 7), change("c", 6, 8)]], {8}, id="key changed"),
        pytest.param([[change("c", 5, 7)], [change("d", 6, 7)], [change("c", 5, 7)]], set(), id="redelivered"),
        pytest.param([[change("c", 5, 7), change("c", 5, 8)], [tombstone(7)]], {8}, id="missed delete"),
        pytest.param([[change("c", 5, 7, "{")]], {7}, id="opted out without a readable row"),
    ],
)
def test_rows_converge(changes: list[list[Change]], expected: set[int], tmp_path: Path) -> None:
    batches = [[each() for each in batch] for batch in changes]
    assert in_opensearch(*batches) == {(1, club_id) for club_id in expected}
    assert in_store(tmp_path / "state", *batches) == {(1, club_id) for club_id in expected}
