"""schemas/source.yaml maps any monolith's tables to the directory; no other file names a table of the monolith."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.devstack.config import ROOT
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import columns_of
from masscomm.domain.source_tables import SourceError, Value, read_source, source_tables
from masscomm.errors import DeadLetter
from tests.support import prose
from tests.support.changed_tree import printed_json

PRODUCT = ("masscomm", "functions", "spark_metrics", "infra", "ops", "cli", "local")
SECOND = ROOT / "examples" / "crm" / "source.yaml"
RECORDS = """
import json, sys
from functions.catalogue import read_catalogue
from infra.cdk.profiles import DIRECTORY, ERASED_INDICES, PROFILES
from masscomm.cdc.change_events import ChangeDecoder, rows_of
from masscomm.cdc.debezium import debezium_config
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import cdc_topics, generation_of, resolve
from masscomm.domain.lanes import Lane
from masscomm.errors import DeadLetter
from ops.provisioning.directory import index_name

def decoded(topic, key, row, op="c"):
    value = {"op": op, "source": {"lsn": 7, "ts_ms": 1}, "after": row, "before": None}
    key, value = json.dumps(key).encode(), json.dumps(value).encode()
    record = KafkaRecord(topic=topic, partition=0, offset=0, timestamp_ms=0, key=key, value=value)
    try:
        rows = rows_of(ChangeDecoder("g1").decode(record))
    except DeadLetter as error:
        return [error.reason, str(error)]
    return [[row.table, row.id, row.columns] for row in rows]

entries = {entry.name: entry for entry in read_catalogue(generation="g1")}
print(json.dumps({
    "topics": [topic.name for topic in cdc_topics("g1")],
    "generation": generation_of("cdc.g2.crm.person"),
    "event_source": list(entries["cdc_consumer"].event_source.topics),
    "devices": resolve("cdc.devices", lane=Lane.BULK, generation="g1"),
    "debezium": debezium_config("g1"),
    "indices": [index_name(name, "g1") for name in PROFILES["cdc_consumer"].written],
    "read": list(DIRECTORY),
    "erased": list(ERASED_INDICES),
    "rows": [decoded(*case) for case in json.loads(CASES)],
}))
"""


def read_with(source: Path, cases: list[Any]) -> dict[str, Any]:
    """Return the lists and the decoded records of a process whose MASSCOMM_SOURCE names a file."""
    found: dict[str, Any] = printed_json(ROOT, f"CASES = {json.dumps(cases)!r}" + RECORDS, MASSCOMM_SOURCE=str(source))
    return found


PERSON = {
    "person_no": 7,
    "organisation": 3,
    "given_name": "Ada",
    "family_name": "Abel",
    "contact": '{"mail": {"address": "ada@example.org"}}',
    "language": None,
    "zone": "Europe/Berlin",
    "plan": None,
    "joined_on": 20_000,
    "balance": "12.50",
}
KEY = {"person_no": 7}
CASES: list[Any] = [
    ["cdc.g1.crm.person", KEY, PERSON],
    ["cdc.g1.crm.person", KEY, PERSON | {"given_name": None}],
    ["cdc.g1.crm.contact_choice", KEY, {"person_no": 7, "wants_push": None, "no_mail": True, "topics": "{}"}],
    ["cdc.g1.crm.quiet_time", KEY, {"person_no": 7, "starts": 79_200_000_000, "ends": 25_200_000_000}],
    ["cdc.g1.crm.handset", {"handset_no": 4}, {"owner_no": 7, "kind": "ios", "push_token": "t", "retired": False}],
    ["cdc.g1.crm.handset", {"handset_no": 4}, {"owner_no": 7, "kind": "fax", "push_token": "t", "retired": False}],
]


@pytest.fixture(scope="module")
def second() -> dict[str, Any]:
    return read_with(SECOND, CASES)


def test_second_example_has_topics_of_its_tables(second: dict[str, Any]) -> None:
    tables = ("person", "contact_choice", "quiet_time", "handset", "wording")
    topics = {f"cdc.g1.crm.{table}" for table in tables} | {"cdc.g1.notification", "cdc.g1.message"}
    assert set(second["topics"]) == topics
    assert set(second["event_source"]) == topics
    assert second["devices"] == ["cdc.g1.crm.handset"]
    assert second["generation"] == "g2"


def test_second_example_configures_the_connector(second: dict[str, Any]) -> None:
    config = second["debezium"]
    assert config["table.include.list"].split(",")[0] == "crm.person"
    assert "crm.handset:handset_no" in config["message.key.columns"].split(";")
    patterns = config["column.include.list"].split(",")

    def captured(column: str) -> bool:
        return any(re.fullmatch(pattern, column) for pattern in patterns)

    assert captured("crm.person.contact")
    assert captured("crm.quiet_time.starts")
    assert not captured("crm.person.password_hash")
    assert not captured("crm.person.person_uuid")


def test_second_example_has_an_index_for_each_source(second: dict[str, Any]) -> None:
    assert {"user_settings-g1", "user_settings.quiet-g1"} < set(second["indices"])
    assert "user_settings.quiet" in second["read"]
    assert "user_settings.quiet" in second["erased"]


def test_rows_of_the_second_example_become_documents(second: dict[str, Any]) -> None:
    user, _, settings, quiet, device, _ = second["rows"]
    assert user == [
        [
            "users",
            "7",
            {
                "id": 7,
                "club_id": 3,
                "first_name": "Ada",
                "last_name": "Abel",
                "email": "ada@example.org",
                "phone": None,
                "locale": "de",
                "time_zone": "Europe/Berlin",
                "attributes": {"plan": "free", "joined_on": "2024-10-04", "balance": "12.50"},
            },
        ]
    ]
    assert settings[0][2] == {"user_id": 7, "channels": {"email": False}, "categories": {}}
    assert quiet == [["user_settings.quiet", "7", {"user_id": 7, "quiet_hours": {"start": "22:00", "end": "07:00"}}]]
    assert device[0][2] == {"id": 4, "user_id": 7, "platform": "apns", "token": "t", "active": True}


def test_row_without_a_required_value_names_it(second: dict[str, Any]) -> None:
    assert second["rows"][1] == [
        "invalid",
        "users.first_name (crm.person.given_name) is missing in the row person_no=7",
    ]
    assert second["rows"][5] == ["invalid", "kind is 'fax', and devices.platform lists no value for it"]


def test_one_table_is_the_source_of_users_and_settings(tmp_path: Path) -> None:
    document = yaml.safe_load(SECOND.read_text())
    settings = {"user_id": "person_no", "channels": {"object": {"push": "wants_push"}}}
    document["tables"]["user_settings"] = {"table": "crm.person", "key": "person_no", "columns": settings}
    source = tmp_path / "my-source.yaml"
    source.write_text(yaml.safe_dump(document, sort_keys=False))
    found = read_with(source, [["cdc.g1.crm.person", KEY, PERSON | {"wants_push": False}]])
    users, other = found["rows"][0]
    assert users[0] == "users"
    assert other == ["user_settings", "7", {"user_id": 7, "channels": {"push": False}}]
    assert len(found["topics"]) == len(set(found["topics"])) == 6
    assert found["debezium"]["table.include.list"].split(",").count("crm.person") == 1


def test_captured_columns_exist_in_the_directory() -> None:
    for name, table in captured_tables().items():
        assert table.source.columns.keys() <= columns_of(name).keys(), name


_ERROR = """
import json
from masscomm.cdc.captured_tables import captured_tables
from masscomm.domain.source_tables import SourceError
try:
    captured_tables()
except SourceError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "my-source.yaml cannot be read"),
        ("tables: {users: [", "my-source.yaml is not YAML"),
        ("tabels: {}", "my-source.yaml needs the key tables"),
        ("tables: {users: {table: a.b, key: id}}", "my-source.yaml: users needs table, key and columns"),
        ("tables: {users: {table: a.b, key: id, columns: {}}}", "my-source.yaml has no entry for devices"),
    ],
)
def test_errors_name_the_file_of_the_variable(text: str | None, message: str, tmp_path: Path) -> None:
    source = tmp_path / "my-source.yaml"
    if text is not None:
        source.write_text(text)
    assert message in printed_json(ROOT, _ERROR, MASSCOMM_SOURCE=str(source))


def words(text: str) -> Iterator[str]:
    yield from re.findall(r"[a-z_]+", text)


def monolith_names(source: Mapping[str, Any]) -> set[str]:
    """Return the tables with their schema, and the columns of several words that the directory does not have."""
    tables = read_source(source)
    names = {table.qualified for table in tables.values()}
    directory = {column for name in captured_tables() for column in columns_of(name)} | {"id"}
    columns = {column for table in tables.values() for column in table.read_columns() if "_" in column}
    return names | columns - directory


# The files that belong to the first example: its mapping, and a record of its tables.
OF_EXAMPLE = {"schemas/source.yaml", "schemas/cdc_examples/notification.json"}
SUFFIXES = (".py", ".yaml", ".json", ".ts", ".vue", ".sql")


def files_naming_a_monolith() -> dict[str, set[str]]:
    """Return the files outside examples/ that name a table or column of an example, or select from its tables."""
    tables = source_tables().values()
    names = monolith_names(yaml.safe_load(SECOND.read_text())) | {table.qualified for table in tables}
    words = "|".join(map(re.escape, sorted(names)))
    own = "|".join(sorted({table.table for table in tables}))
    pattern = re.compile(rf"\b(?:{words})\b|\b(?:FROM|JOIN|UPDATE|INTO) (?:{own})\b")
    found = {}
    for name in prose.files_of_repository():
        if name.endswith(SUFFIXES) and name.startswith(tuple(f"{package}/" for package in (*PRODUCT, *FURTHER))):
            found[name] = set(pattern.findall((ROOT / name).read_text()))
    assert len(found) > 300
    return {name: matches for name, matches in found.items() if matches}


# Folders whose files a deployment has, next to those of PRODUCT.
FURTHER = ("schemas", "web/src", "ops", "lab/capacity")


def test_only_files_of_the_example_name_a_monoliths_tables() -> None:
    found = files_naming_a_monolith()
    assert {name: matches for name, matches in found.items() if name not in OF_EXAMPLE} == {}
    assert OF_EXAMPLE - found.keys() == set(), "files that name none any more"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": "users"}, "no name of letters"),
        ({"table": 'crm."odd name"'}, "no name of letters"),
        ({"columns": {"club_id": {"column": "a", "formt": "date"}}}, "no column, constant or object"),
        ({"columns": {"club_id": {"column": "a", "format": "fax"}}}, "is none of date, time, timestamp"),
        ({"columns": {"club_id": 7}}, "a column's name or a mapping"),
        ({"colums": {}}, "unknown keys: colums"),
        ({"columns": ["club_id"]}, "columns and attributes are mappings"),
        ({"columns": None}, "columns and attributes are mappings"),
    ],
)
def test_invalid_source_names_the_entry(change: dict[str, Any], message: str) -> None:
    entry = {"table": "a.b", "key": "id", "columns": {"club_id": "club"}} | change
    with pytest.raises(SourceError, match=rf"users.*{message}"):
        read_source({"tables": {"users": entry}})


@pytest.mark.parametrize("document", [{}, {"tables": None}, [], {"tables": {"users": None}}])
def test_source_without_tables_is_refused(document: Any) -> None:
    with pytest.raises(SourceError, match="needs"):
        read_source(document)


@pytest.mark.parametrize(
    ("name", "message"),
    [("users.more", "only user_settings"), ("user_settings", "already has the key id"), ("devices", "only users have")],
)
def test_inconsistent_sources_are_refused(name: str, message: str) -> None:
    users = {"table": "a.b", "key": "id", "columns": {}}
    other = {"table": "a.b", "key": "other", "columns": {}, "attributes": {"plan": "plan"}}
    if name == "user_settings":
        del other["attributes"]
    with pytest.raises(SourceError, match=message):
        read_source({"tables": {"users": users, name: other}})


# The numbers that Debezium has for infinity and -infinity, in the snapshot and in the stream.
INFINITE = {
    "date": [-622_191_234, -625_821_272, 2_146_033_979, -2_147_472_691],
    "timestamp": [2**63 - 1, -(2**63)],
}


@pytest.mark.kills(guard="cdc.infinity")
@pytest.mark.parametrize(("kind", "number"), [(kind, each) for kind, numbers in INFINITE.items() for each in numbers])
def test_infinite_time_counts_as_null(kind: str, number: int) -> None:
    """A user whose membership has no end is not a row to refuse."""
    assert value_of({"column": "c", "format": kind}, {"c": number}) is None
    assert value_of({"column": "c", "format": kind, "default": "9999-12-31"}, {"c": number}) == "9999-12-31"


def value_of(entry: Any, row: Mapping[str, Any]) -> Any:
    return Value.read(entry, "here").of(row.get, "here")


@pytest.mark.kills(guard="cdc.blanks")
@pytest.mark.kills(guard="cdc.spelled_member")
@pytest.mark.parametrize(
    ("entry", "value", "expected"),
    [
        ("c", 7, 7),
        ("c", "Europe/Berlin    ", "Europe/Berlin"),
        ({"column": "c", "values": {"ios": "apns"}}, "ios ", "apns"),
        ({"constant": 3}, None, 3),
        ({"column": "c", "default": "x"}, None, "x"),
        ({"column": "c", "default": "x"}, "", ""),
        ({"column": "c", "path": "a.b"}, '{"a": {"b": 5}}', 5),
        ({"column": "c", "path": "a.b"}, '{"a": 5}', None),
        ({"column": "c", "path": "a"}, None, None),
        ({"column": "c", "path": "a.b"}, '{" A": {"B": false}}', False),
        ({"column": "c", "path": "a.b"}, '{"a": {"B": false, "b": true}}', False),
        ({"column": "c", "path": "a.b"}, '{"a": {"B": true, "b": true}}', True),
        ({"column": "c", "path": "a.b"}, '{"a": {"B": "other", "b": "exact"}}', "exact"),
        ({"column": "c", "path": "a.b"}, '{"a": {"c": false, "b": null}}', None),
        ({"column": "c", "values": {True: "y", 2: "z"}}, True, "y"),
        ({"column": "c", "values": {True: "y", 2: "z"}}, 2, "z"),
        ({"column": "c", "values": {"a": None}, "default": "x"}, "a", "x"),
        ({"column": "c", "format": "date"}, -1, "1969-12-31"),
        ({"column": "c", "format": "time"}, 86_340_000_000, "23:59"),
        ({"column": "c", "format": "timestamp"}, 1_500_000, "1970-01-01T00:00:01.500000Z"),
        ({"object": {"a": "c", "b": "d"}}, 1, {"a": 1}),
        ({"object": {"b": "d"}}, 1, None),
    ],
)
def test_value_derives_from_a_row(entry: Any, value: Any, expected: Any) -> None:
    assert value_of(entry, {"c": value}) == expected


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"column": "c", "values": {"a": 1}}, "b"),
        ({"column": "c", "format": "date"}, "yesterday"),
        ({"column": "c", "format": "time"}, 10**19),
        ({"column": "c", "format": "time"}, True),
        ({"column": "c", "path": "a"}, "{no json"),
    ],
)
def test_value_of_another_form_is_dead_lettered(entry: Any, value: Any) -> None:
    with pytest.raises(DeadLetter, match=r"^c\b") as caught:
        value_of(entry, {"c": value})
    assert caught.value.reason == "invalid"
