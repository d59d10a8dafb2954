"""A captured table is an entry of schemas/topics.yaml and of schemas/source.yaml, and an index mapping; every list of
tables derives from them.
"""

import json
from typing import Any

import pytest

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import columns_of
from tests.support.changed_tree import changed_tree, printed_json

LISTS = """
import json
from functions.catalogue import read_catalogue
from infra.cdk.profiles import DIRECTORY, ERASED_INDICES, ERASURE_REQUESTS, PROFILES
from masscomm.cdc.change_events import ChangeDecoder
from masscomm.cdc.debezium import debezium_config
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import cdc_topic, cdc_topics, generation_of
from masscomm.errors import DeadLetter
from ops.provisioning.directory import _patterns, index_name

def decoded(row):
    value = {"op": "c", "source": {"lsn": 7, "ts_ms": 1}, "after": row}
    topic = cdc_topic("prizes", "g1")
    record = KafkaRecord(
        topic=topic, partition=0, offset=0, timestamp_ms=0, key=b'{"id": 4}', value=json.dumps(value).encode()
    )
    try:
        return dict(ChangeDecoder("g1").decode(record).columns)
    except DeadLetter as error:
        return error.reason

entries = {entry.name: entry for entry in read_catalogue(generation="g1,g2")}
print(json.dumps({
    "topics": [topic.name for topic in cdc_topics("g1,g2")],
    "consumers": [list(topic.consumers) for topic in cdc_topics("g1") if topic.name.endswith("prizes")],
    "generation": generation_of("cdc.g2.public.prizes"),
    "debezium": debezium_config("g1")["table.include.list"].split(","),
    "event_source": list(entries["cdc_consumer"].event_source.topics),
    "index": index_name("prizes", "g1"),
    "patterns": _patterns("prizes"),
    "read": list(DIRECTORY),
    "written": list(PROFILES["cdc_consumer"].written),
    "requests": list(PROFILES["cdc_consumer"].requests),
    "erased": list(ERASED_INDICES),
    "erasure": list(ERASURE_REQUESTS),
    "progress": KafkaCdcProgress("localhost:1", generation="g1", group="g", offsets_topic="o")._tables,
    "row": decoded({"id": 4, "user_id": 9, "title": "a cup", "secret": "not described"}),
    "incomplete": decoded({"id": 4, "user_id": 9}),
}))
"""


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each derived list of a tree with a fifth captured table, `prizes`."""
    columns = {"id": {"type": "long"}, "user_id": {"type": "long"}, "title": {"type": "keyword"}}
    root = changed_tree(
        tmp_path_factory.mktemp("tree"),
        {
            "schemas/topics.yaml": ("  tables:\n", "  tables:\n    prizes: {required: [title], person: user_id}\n"),
            "schemas/source.yaml": (
                "\ntables:\n",
                "\ntables:\n  prizes: {table: public.prizes, key: id, columns: {user_id: user_id, title: title}}\n",
            ),
        },
        {"schemas/indices/prizes.json": json.dumps({"mappings": {"properties": columns}})},
    )
    found: dict[str, Any] = printed_json(root, LISTS)
    return found


def test_an_added_table_has_topics_and_is_captured(lists: dict[str, Any]) -> None:
    topics = {"cdc.g1.public.prizes", "cdc.g2.public.prizes"}
    assert topics < set(lists["topics"])
    assert topics < set(lists["event_source"])
    # event_matcher reads the outbox, of one generation.
    outboxes = {"cdc.g1.public.event_outbox", "cdc.g2.public.event_outbox"}
    assert set(lists["event_source"]) == set(lists["topics"]) - outboxes
    assert lists["consumers"] == [["cdc_consumer"]]
    assert lists["generation"] == "g2"
    assert "public.prizes" in lists["debezium"]
    assert "cdc.g1.public.prizes" in lists["progress"]


def test_an_added_table_has_an_index_and_permissions(lists: dict[str, Any]) -> None:
    assert lists["index"] == "prizes-g1"
    assert lists["patterns"] == ["prizes", "prizes-*"]
    assert "prizes" in lists["read"]
    assert "prizes" in lists["written"]
    verbs = {request.partition(" ")[0] for request in lists["requests"] if "prizes" in request}
    assert verbs == {"GET", "POST"}, "the aliases are read, and the indices are refreshed"


def test_rows_of_an_added_table_are_decoded(lists: dict[str, Any]) -> None:
    assert lists["row"] == {"id": 4, "user_id": 9, "title": "a cup"}
    assert lists["incomplete"] == "invalid", "a required column is missing"


def test_rows_of_a_person_in_an_added_table_are_erased(lists: dict[str, Any]) -> None:
    assert "prizes" in lists["erased"]
    assert {"POST prizes-*/_search", "POST prizes-*/_refresh"} < set(lists["erasure"])


def test_entries_name_columns_of_their_index() -> None:
    for name, table in captured_tables().items():
        known = columns_of(name)
        columns = {*table.required, *table.null_where_absent, *table.present, *table.kept}
        named = columns | ({table.person} if table.person else set())
        assert named - {"id"} <= set(known), name
