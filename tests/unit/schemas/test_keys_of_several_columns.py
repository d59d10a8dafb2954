"""A key in schemas/source.yaml may be a list of columns: the id of the document has their values, joined."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from masscomm.cdc.captured_tables import read_captured
from masscomm.cdc.change_events import ChangeDecoder, MissedDelete, RefusedRow, RowChanged
from masscomm.cdc.debezium import debezium_config
from masscomm.domain.row_ids import MAX_BYTES, row_id
from masscomm.domain.source_tables import SourceError, read_source
from masscomm.errors import DeadLetter
from masscomm.kafka.event import KafkaRecord
from ops.provisioning.directory import index_definitions
from tests.support.inputs.debezium_records import record
from tests.support.inputs.optional_tables import ENTRIES, mapped, source_with

TABLE = "tenant_user_settings"
KEY = {"user_id": 1, "club_id": 7}
ROW: dict[str, Any] = {**KEY, "channels": '{"push": false}', "categories": None, "updated_at": None}


@pytest.fixture
def _mapped() -> Iterator[None]:
    with mapped(*ENTRIES):
        yield


def changed(op: str, key: Any, row: dict[str, Any]) -> KafkaRecord:
    value = {"op": op, "source": {"lsn": 9, "ts_ms": 1}, ("before" if op == "d" else "after"): row}
    return record(TABLE, key, value)


@pytest.mark.usefixtures("_mapped")
def test_id_of_a_row_has_the_values_of_its_key() -> None:
    decoder = ChangeDecoder("g1")
    found = decoder.decode(changed("c", dict(reversed(KEY.items())), ROW))
    assert isinstance(found, RowChanged)
    assert (found.table, found.id) == (TABLE, "1:7")
    assert found.columns == {**KEY, "channels": {"push": False}, "categories": None, "updated_at": None}
    gone = decoder.decode(changed("d", KEY, ROW))
    assert isinstance(gone, RowChanged)
    assert (gone.id, gone.columns) == ("1:7", None)
    missed = ChangeDecoder("g1").decode(record(TABLE, KEY, None, produced_ms=1))
    assert isinstance(missed, MissedDelete)
    assert (missed.tables, missed.id) == ((TABLE,), "1:7")


@pytest.mark.parametrize("key", [{"user_id": 1}, {"user_id": 1, "club": 7}, {"user_id": 1, "club_id": "7"}])
@pytest.mark.usefixtures("_mapped")
def test_malformed_key_is_dead_lettered(key: Any) -> None:
    for value in (changed("c", key, ROW), record(TABLE, key, None, produced_ms=1)):
        with pytest.raises(DeadLetter) as refused:
            ChangeDecoder("g1").decode(value)
        assert refused.value.reason == "undecodable"


@pytest.mark.usefixtures("_mapped")
def test_settings_for_a_club_that_cannot_be_read_opt_out() -> None:
    with pytest.raises(RefusedRow) as refused:
        ChangeDecoder("g1").decode(changed("c", KEY, {**ROW, "channels": "{"}))
    (row,) = refused.value.unreadable
    assert (row.id, row.columns) == ("1:7", {"channels": "unreadable"})


@pytest.mark.usefixtures("_mapped")
def test_connector_has_all_columns_of_a_key() -> None:
    assert "public.club_settings_of_users:user_id,club_id" in debezium_config("g1")["message.key.columns"].split(";")


@pytest.mark.kills(guard="directory.unmapped_tables")
def test_unmapped_table_has_no_index() -> None:
    assert not any(name.startswith("tenant_settings") for name in index_definitions("g1"))
    with mapped("tenant_settings"):
        assert {name for name in index_definitions("g1") if name.startswith(("tenant_s", "tenant_u"))} == {
            "tenant_settings-g1"
        }


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        (TABLE, {"key": ["club_id", "user_id"]}, "mapped to user_id, club_id, in this order"),
        (TABLE, {"key": "user_id"}, "mapped to user_id, club_id"),
        (TABLE, {"key": []}, "a list of different columns"),
        (TABLE, {"key": ["user_id", "user_id"]}, "a list of different columns"),
        ("tenant_settings", {"key": ["club_id", "updated_at"]}, "needs a key of one column"),
    ],
)
def test_key_that_is_not_of_its_table_is_refused(table: str, change: dict[str, Any], message: str) -> None:
    document = yaml.safe_load(source_with(*ENTRIES))
    document["tables"][table] |= change
    with pytest.raises(SourceError, match=message):
        read_captured(read_source(document))


def test_values_that_are_joined_have_one_id() -> None:
    assert row_id(1, "team", "a:b") == "1:team:a:b"
    for values in ((1, "a:b", "c"), (1, "", "c"), (1, "a", ""), (1, "a", "x" * MAX_BYTES)):
        with pytest.raises(ValueError, match="key"):
            row_id(*values)
