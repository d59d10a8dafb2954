"""Records of every writer's schema become the counted rows."""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fastavro
import pytest
import yaml
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain import ids
from masscomm.domain.categories import Category, CategoryVersion, Versions, read_categories, resolve_channels
from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.kafka.avro import own_schema
from masscomm.kafka.dead_letters import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from schemas import read_text
from spark_metrics.common.session import is_usable_schema
from spark_metrics.common.sources import requested
from spark_metrics.counting.decode import unknown_writers
from spark_metrics.counting.facts import facts, resolved_channels
from spark_metrics.counting.lanes import Lanes
from tests.support.inputs.countable_sends import CASES, PRODUCED_MS
from tests.support.inputs.other_units import with_unit
from tests.support.spark.session import Record, ToFrame

AT_MS, DAY_MS = 1_700_000_000_000, 86_400_000
RECORD_ID = ids.chunk_id("a parent", 0)

# The schema of a producer that knows only these four fields.
MINIMAL = {
    "type": "record",
    "name": "SendRequested",
    "namespace": "masscomm",
    "fields": [
        f for f in own_schema("SendRequested")["fields"] if f["name"] in ("type", "club_id", "timestamp", "to_users")
    ],
}
# A future version of SendRequested, with reordered fields and a new one.
LATER = own_schema("SendRequested") | {
    "fields": [
        {"name": "campaign", "type": ["null", "string"], "default": None},
        *reversed(own_schema("SendRequested")["fields"]),
    ]
}
# The schema of outcomes before they had labels.
EARLIER = own_schema("NotificationOutcome") | {
    "fields": [f for f in own_schema("NotificationOutcome")["fields"] if f["name"] not in ("template", "locale")]
}
OWN_SEND, MINIMAL_SEND, LATER_SEND, OWN_DELIVERY, OWN_OUTCOME, STRANGE = 1, 2, 3, 4, 70_000, 6
MICROS_SEND, NANOS_SEND, EARLIER_OUTCOME = 7, 8, 9
SCHEMAS: dict[int, Any] = {
    OWN_SEND: own_schema("SendRequested"),
    MINIMAL_SEND: MINIMAL,
    LATER_SEND: LATER,
    OWN_DELIVERY: own_schema("DeliveryRequested"),
    OWN_OUTCOME: own_schema("NotificationOutcome"),
    STRANGE: {"type": "record", "name": "Strange", "fields": [{"name": "x", "type": "long"}]},
    MICROS_SEND: with_unit(own_schema("SendRequested"), "timestamp-micros"),
    NANOS_SEND: with_unit(own_schema("SendRequested"), "timestamp-nanos"),
    EARLIER_OUTCOME: EARLIER,
}
WRITERS = {
    "send": {i: json.dumps(SCHEMAS[i]) for i in (OWN_SEND, MINIMAL_SEND, LATER_SEND, STRANGE)},
    "delivery": {OWN_DELIVERY: json.dumps(SCHEMAS[OWN_DELIVERY])},
    "outcome": {OWN_OUTCOME: json.dumps(SCHEMAS[OWN_OUTCOME])},
}
# And those of single tests.
ALL_WRITERS = WRITERS | {
    "send": WRITERS["send"] | {i: json.dumps(SCHEMAS[i]) for i in (MICROS_SEND, NANOS_SEND)},
    "outcome": WRITERS["outcome"] | {EARLIER_OUTCOME: json.dumps(EARLIER)},
}

type ToRows = Callable[[Sequence[dict[str, Any]], Mapping[str, Mapping[int, str]]], list[dict[str, Any]]]


def avro(schema_id: int, value: Mapping[str, Any]) -> bytes:
    """Encode a value in the wire format, by the schema with this id."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMAS[schema_id]), value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def a_send(schema_id: int = OWN_SEND, **changes: Any) -> bytes:
    return avro(schema_id, {"type": "news", "club_id": 7, "timestamp": AT_MS, "to_users": [1, 2, 3]} | changes)


def a_delivery(**changes: Any) -> bytes:
    value = {
        "record_id": RECORD_ID,
        "parent_id": "p",
        "send_id": "s",
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 500,
        "club_id": 7,
        "type": "news",
        "timestamp": AT_MS,
        "built_at": AT_MS + 61_000,
        "channel": "push",
        "positions": [0, 2, 4],
        "user_ids": [1, 2, 3],
        "content": [{"field": "title", "values": ["t"], "index": []}],
    }
    return avro(OWN_DELIVERY, value | changes)


def an_outcome(results: list[dict[str, Any]], **changes: Any) -> bytes:
    value = {
        "record_id": RECORD_ID,
        "parent_id": "p",
        "step": "preference",
        "send_id": "s",
        "chunk_index": 0,
        "range_start": 0,
        "range_end": 500,
        "club_id": 7,
        "type": "news",
        "channel": "push",
        "timestamp": AT_MS + 5,
        "requested_at": AT_MS,
        "positions": [0],
        "user_ids": [1],
        "results": results,
        "result_index": [0],
    }
    return avro(OWN_OUTCOME, value | changes)


def counts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(r["channel"], r["measure"], r["reason"], r["count_total"]) for r in rows]


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest, counted: ToRows) -> dict[int, list[dict[str, Any]]]:
    """Count the records of all tests with `rows` in one query: its plan takes two seconds, and a record takes none.

    Each test's records have a partition of their own, with offsets from 0. Returns the rows by `id` of the records.
    """
    parameters = (getattr(item, "callspec", None) for item in request.session.items if item.path == request.path)
    inputs: list[tuple[Record, ...]] = [each.params["rows"] for each in parameters if each and "rows" in each.params]
    records = [
        {"partition": partition, "offset": offset} | record
        for partition, each in enumerate(inputs)
        for offset, record in enumerate(each)
    ]
    rows = counted(records, ALL_WRITERS)
    return {id(each): [row for row in rows if row["partition"] == place] for place, each in enumerate(inputs)}


@pytest.fixture
def rows(request: pytest.FixtureRequest, batch: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows of the test's own records, by topic and offset."""
    return batch[id(request.param)]


def with_rows_of(*records: Record) -> pytest.MarkDecorator:
    """Give a test the rows of these records."""
    return pytest.mark.parametrize("rows", [records], indirect=True, ids=[pytest.HIDDEN_PARAM])


@with_rows_of({"topic": "send.monolith", "offset": 41, "timestamp_ms": AT_MS + 9, "value": a_send(MINIMAL_SEND)})
def test_send_of_a_minimal_producer_is_counted(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    send_id = ids.send_id_of_record("send.monolith", row["partition"], 41, AT_MS + 9)
    assert row == {
        "topic": "send.monolith",
        "partition": row["partition"],
        "kafka_offset": 41,
        "ordinal": 0,
        "source": "send",
        "schema_id": MINIMAL_SEND,
        "problem": None,
        "record_id": ids.chunk_id(send_id, 0),
        "send_id": send_id,
        "club_id": 7,
        "type": "news",
        "at_ms": AT_MS,
        "chunk_count": 1,
        "labels": None,
        "channel": "push",
        "measure": "requested",
        "reason": None,
        "count_total": 3,
    }


@with_rows_of(
    {"topic": "send.monolith", "value": a_send(MINIMAL_SEND)},
    {"topic": "send.monolith", "value": a_send(OWN_SEND, send_id="x", chunk_index=2, chunk_count=5)},
    {"topic": "send.api.critical", "value": a_send(LATER_SEND, send_id="y", chunk_index=1, campaign="c")},
    {"topic": "outcome", "value": an_outcome([{"status": "sent", "count": 1}])},
)
def test_each_record_is_read_by_its_writers_schema(rows: list[dict[str, Any]]) -> None:
    assert all(row["problem"] is None for row in rows)
    by_topic = {(row["topic"], row["kafka_offset"]): row for row in rows}
    assert by_topic["send.monolith", 1]["record_id"] == ids.chunk_id("x", 2)
    assert by_topic["send.monolith", 1]["chunk_count"] == 5
    assert by_topic["send.api.critical", 2]["record_id"] == ids.chunk_id("y", 1)
    assert by_topic["outcome", 3]["schema_id"] == OWN_OUTCOME


@with_rows_of({"topic": "send.api", "value": a_send(type="security_alert", to_users=[5, 1, 5, 5, 2])})
def test_repeated_user_is_a_duplicate_on_each_channel(rows: list[dict[str, Any]]) -> None:
    assert counts(rows) == [
        ("push", "requested", None, 3),
        ("email", "requested", None, 3),
        ("push", "duplicate", None, 2),
        ("email", "duplicate", None, 2),
    ]
    assert [row["ordinal"] for row in rows] == [0, 1, 2, 3]


OF_CLUBS: dict[int, Any] = {
    7: {"newsletter": {"channels": ["push", "email"]}, "security_alert": {"channels": ["email"]}, "news": {}},
    8: {"default": {"channels": ["email"]}},
    2**40: {"news": {"channels": ["email", "push"]}},
    9: {},
}


PUSH = Category(("push",), False)
VERSIONS = {
    "news": [
        CategoryVersion(from_ms=1_000, category=Category(("email",), False)),
        CategoryVersion(from_ms=2_000, category=Category(("email",), True)),
        CategoryVersion(from_ms=3_000, category=PUSH, of_clubs={8: Category(("email", "push"), False)}),
    ],
    "offers": [CategoryVersion(from_ms=2_000, category=Category(("email",), False), of_clubs={7: PUSH})],
    "default": [
        CategoryVersion(from_ms=1_000, category=Category(("email", "push"), False), of_clubs={8: PUSH}),
        CategoryVersion(from_ms=2_500, category=Category(("email",), False), of_clubs={9: PUSH}),
    ],
}


@pytest.mark.parametrize("versions", [{}, VERSIONS])
@pytest.mark.parametrize("of_clubs", [{9: {}}, OF_CLUBS])
def test_channels_are_resolved_as_the_first_step_does(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, of_clubs: dict[int, Any], versions: Versions
) -> None:
    document = yaml.safe_load(read_text("categories.yaml")) | {"tenants": of_clubs}
    table = read_categories(document).with_versions(versions)
    for module in ("masscomm.domain.categories", "spark_metrics.counting.facts"):
        monkeypatch.setattr(f"{module}.category_table", lambda: table)
    asked: list[tuple[str, list[str], int, int]] = [
        (category, channels, club_id, at_ms)
        for category in (
            *("news", "newsletter", "security_alert", "one_time_password", "never heard of", "default", ""),
            *("NEWS", "News letter\x1c", " n e\tws", "new\u017f", "\uff4e\uff45\uff57\uff53", "news\xa0", "Offers"),
        )
        for channels in ([], ["email", "push", "email"], ["sms"])
        for club_id in (1, 7, 8, 9, 2**40)
        for at_ms in (0, 999, 1_000, 2_500, 3_000)
    ]
    frame = spark.createDataFrame(asked, "type string, asked array<string>, club_id long, at_ms long")
    columns = [F.col(name) for name in frame.columns]
    resolved = frame.select(*columns, resolved_channels(*columns).alias("channels"))
    expected = spark.createDataFrame(
        [(*each, resolve_channels(*each)) for each in asked],
        "type string, asked array<string>, club_id long, at_ms long, channels array<string>",
    )
    assert_df_equality(resolved, expected, ignore_nullable=True)


def test_requested_counts_distinct_users_a_channel(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(["push"], [1, 1, 2]), (["push"], [])], "channels array<string>, users array<bigint>"
    )
    found = frame.select(F.explode(requested(F.col("channels"), F.col("users"))).alias("c")).select("c.*")
    expected = spark.createDataFrame(
        [("push", "requested", None, 2), ("push", "duplicate", None, 1), ("push", "requested", None, 0)],
        "channel string, measure string, reason string, count_total bigint",
    )
    assert_df_equality(found, expected, ignore_nullable=True)


@with_rows_of(
    {"topic": "delivery", "value": a_delivery()},
    {"topic": "delivery", "value": a_delivery(record_id=ids.chunk_id("a parent", 1), waits=1)},
)
def test_rescheduled_delivery_is_not_queued_twice(rows: list[dict[str, Any]]) -> None:
    assert [counts([row]) for row in rows] == [
        [("push", "queued", None, 3)],
        [(None, None, None, None)],
    ]


RESULTS = [
    {"status": "suppressed", "reason": "opted_out", "count": 3, "rule": "a"},
    {"status": "suppressed", "reason": "opted_out", "count": 4, "rule": "b"},
    {"status": "sent", "count": 2},
]


@with_rows_of(
    {"topic": "delivery.critical", "value": a_delivery()},
    {"topic": "outcome", "value": an_outcome(RESULTS)},
)
def test_queued_and_outcomes_are_counted_at_their_own_times(rows: list[dict[str, Any]]) -> None:
    queued, *outcome = rows
    assert counts([queued]) == [("push", "queued", None, 3)]
    assert (queued["at_ms"], queued["record_id"], queued["send_id"]) == (AT_MS + 61_000, RECORD_ID, "s")
    assert counts(outcome) == [
        ("push", "suppressed", "opted_out", 3),
        ("push", "suppressed", "opted_out", 4),
        ("push", "sent", None, 2),
    ]
    assert {row["at_ms"] for row in outcome} == {AT_MS + 5}


@with_rows_of({"topic": "outcome", "value": an_outcome([])})
def test_outcome_without_results_still_has_its_record_id(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    assert (row["record_id"], row["problem"], row["measure"]) == (RECORD_ID, None, None)


POSITION = [
    (SOURCE_TOPIC, b"never the first"),
    (SOURCE_TOPIC, b"send.monolith"),
    (SOURCE_PARTITION, b"2"),
    (SOURCE_OFFSET, b"17"),
    (SOURCE_TIMESTAMP, b"1699999999999"),
]


@with_rows_of(
    {"topic": "send.monolith", "value": a_send(MINIMAL_SEND), "headers": POSITION},
    {"topic": "send.monolith", "value": a_send(MINIMAL_SEND), "headers": [*POSITION[:3], (SOURCE_OFFSET, b"x")]},
)
def test_replayed_record_has_the_send_id_of_its_first_position(rows: list[dict[str, Any]]) -> None:
    good, bad = rows
    assert good["send_id"] == ids.send_id_of_record("send.monolith", 2, 17, 1_699_999_999_999)
    assert bad["problem"] == "bad_position"


@pytest.mark.kills(guard="metrics.position_header")
def test_position_headers_outside_utf8_stop_no_batch(counted: ToRows) -> None:
    """In a query of its own: without the guard, it fails."""
    headers = [(dict(POSITION) | {name: b"\xff\xfe"}).items() for name in (SOURCE_TOPIC, SOURCE_PARTITION)]
    record = {"topic": "send.monolith", "value": a_send(MINIMAL_SEND)}
    rows = counted([*(record | {"headers": each} for each in headers), record], WRITERS)
    assert [row["problem"] for row in rows] == ["bad_position", "bad_position", None]


REFUSED = {
    "one more byte": a_send() + b"\0",
    "another record": a_send() + a_send(),
    "a text that is not UTF-8": a_send(data={"headline": "Win!"}).replace(b"Win!", b"W\xffn!"),
    "a key that is not UTF-8": a_send(data={"Win!": ""}).replace(b"Win!", b"W\xffn!"),
    "half a character": a_send(reference="Win!").replace(b"Win!", b"Win\xc3"),
    "cut short": a_send(reference="Win!")[:-1],
}
GOOD = a_send(data={"headline": "W\u00efn \U0001f600"}, reference="\u00ef")


@with_rows_of(*({"topic": "send.api", "value": each} for each in (*REFUSED.values(), GOOD)))
def test_value_that_functions_refuse_is_undecodable(rows: list[dict[str, Any]]) -> None:
    problems = dict(zip((*REFUSED, "good"), (row["problem"] for row in rows), strict=True))
    assert problems == dict.fromkeys(REFUSED, "undecodable") | {"good": None}


@with_rows_of({"topic": "send.api", "offset": 5, "value": a_send(send_id="")})
def test_empty_send_id_is_derived_from_the_position(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    assert row["send_id"] == ids.send_id_of_record("send.api", row["partition"], 5, AT_MS)


def _claims_two_billion_users() -> bytes:
    buffer = io.BytesIO()
    for schema, value in (("string", "news"), ("long", 7), ("long", AT_MS), ("long", 2**31 - 16)):
        fastavro.schemaless_writer(buffer, schema, value)
    return b"\0" + MINIMAL_SEND.to_bytes(4, "big") + buffer.getvalue()


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def _no_utf8(value: bytes, text: str) -> bytes:
    """Corrupt a text in a record: it begins in the middle of a UTF-8 character."""
    assert text.encode() in value
    return value.replace(text.encode(), b"\xbf" + text.encode()[1:])


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (({"topic": topic, "value": value},), labels)
        for topic, value, labels in (
            ("send.api", a_send(template="a", locale='"\\\n'), {"template": "a", "locale": '"\\\n'}),
            ("send.api", a_send(MINIMAL_SEND), None),
            ("delivery", a_delivery(locale="de"), {"locale": "de"}),
            ("outcome", an_outcome([], template="x" * 201, locale="a\0b"), None),
            ("outcome", an_outcome([], template="bee", locale="de").replace(b"bee", b"be\xff"), {"locale": "de"}),
        )
    ],
    indirect=["rows"],
)
def test_labels_are_the_texts_that_postgres_can_store(
    rows: list[dict[str, Any]], labels: dict[str, str] | None
) -> None:
    """A label that it cannot store is left out; its record is counted."""
    (row,) = rows
    assert (row["problem"], row["labels"] and json.loads(row["labels"])) == (None, labels)


@pytest.mark.kills(guard="metrics.unit_of_the_writer")
@with_rows_of(
    {"topic": "send.api", "value": a_send(MICROS_SEND, timestamp=AT_MS * 1_000 + 999)},
    {"topic": "send.api", "value": a_send(NANOS_SEND, timestamp=AT_MS * 1_000_000 + 999_999)},
)
def test_finer_times_are_counted_in_milliseconds(spark: SparkSession, rows: list[dict[str, Any]]) -> None:
    """The functions read them so, too: tests/unit/masscomm/test_time_units.py."""
    assert all(is_usable_schema(spark, ALL_WRITERS["send"][each]) for each in (MICROS_SEND, NANOS_SEND))
    assert [(row["problem"], row["at_ms"]) for row in rows] == [(None, AT_MS)] * 2


def an_earlier_outcome() -> bytes:
    """Return a record that the earlier schema has read from one with labels."""
    value = an_outcome([{"status": "sent", "count": 1}], template="a", locale="de")
    read = fastavro.schemaless_reader(
        io.BytesIO(value[5:]), fastavro.parse_schema(SCHEMAS[OWN_OUTCOME]), fastavro.parse_schema(EARLIER)
    )
    assert isinstance(read, Mapping)
    return avro(EARLIER_OUTCOME, read)


@with_rows_of({"topic": "outcome", "value": an_earlier_outcome()})
def test_record_of_an_earlier_schema_has_no_labels(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    assert (row["problem"], row["labels"], row["count_total"]) == (None, None, 1)


BAD: list[tuple[str, str, bytes | None, str]] = [
    ("no value", "send.api", None, "undecodable"),
    ("an empty value", "send.api", b"", "undecodable"),
    ("shorter than its header", "send.api", b"\0\0\0", "undecodable"),
    ("JSON", "send.api", b'{"type": "news"}', "undecodable"),
    ("only a header", "send.api", _header(OWN_SEND), "undecodable"),
    ("cut off", "send.api", a_send()[:-6], "undecodable"),
    ("an array of two billion", "send.api", _claims_two_billion_users(), "undecodable"),
    ("a schema that lacks our fields", "send.api", avro(STRANGE, {"x": 1}), "undecodable"),
    ("a schema never looked up", "send.api", _header(99) + b"abc", "not_learned"),
    ("an id beyond 31 bits", "send.api", b"\0\xff\xff\xff\xffabc", "undecodable"),
    ("the first id beyond 31 bits", "send.api", _header(2**31), "undecodable"),
    ("the last id of 31 bits", "send.api", _header(2**31 - 1) + b"abc", "not_learned"),
    ("the id 0", "send.api", _header(0) + b"abc", "undecodable"),
    ("another source's schema", "outcome", a_send(), "not_learned"),
    ("a type that no key can hold", "send.api", a_send(type="x" * 201), "bad_text"),
    ("no type", "send.api", a_send(type=""), "bad_text"),
    ("a NUL", "send.api", a_send(type="a\0b"), "bad_text"),
    ("a NUL in a channel", "send.api", a_send(channels=["a\0"]), "bad_text"),
    ("a send id that no key can hold", "send.api", a_send(send_id="x" * 201), "bad_text"),
    ("a time before 1970", "send.api", a_send(timestamp=-1), "bad_timestamp"),
    ("a time in seconds", "send.api", a_send(timestamp=AT_MS // 1000), "bad_timestamp"),
    ("an outcome's time in seconds", "outcome", an_outcome([], timestamp=AT_MS // 1000), "bad_timestamp"),
    ("a time of an earlier year", "send.api", a_send(timestamp=AT_MS - 40 * DAY_MS - 1), "too_old"),
    ("an outcome of an earlier year", "outcome", an_outcome([], timestamp=AT_MS - 40 * DAY_MS - 1), "too_old"),
    ("a time far ahead", "send.api", a_send(timestamp=AT_MS + 3_600_001), "far_future"),
    ("the last time there is", "send.api", a_send(timestamp=2**63 - 1), "far_future"),
    ("a derived record without a UUID", "delivery", a_delivery(record_id="42"), "bad_id"),
    ("less than nobody", "outcome", an_outcome([{"status": "sent", "count": -1}]), "bad_count"),
    (
        "less than nobody, of several",
        "outcome",
        an_outcome([{"status": "sent", "count": n} for n in (1, -1)]),
        "bad_count",
    ),
    ("an unknown status", "outcome", an_outcome([{"status": "teleported", "count": 1}]), "unknown_measure"),
    (
        "an unknown status among others",
        "outcome",
        an_outcome([{"status": status, "count": 1} for status in ("sent", "teleported")]),
        "unknown_measure",
    ),
    ("a send id of a megabyte", "outcome", an_outcome([], send_id="x" * 2**20), "bad_text"),
    ("a NUL in a send id", "outcome", an_outcome([], send_id="a\0b"), "bad_text"),
    ("a type that is no UTF-8", "send.api", _no_utf8(a_send(type="news"), "news"), "undecodable"),
    ("a send id that is no UTF-8", "send.api", _no_utf8(a_send(send_id="a send"), "a send"), "undecodable"),
    ("a channel that is no UTF-8", "send.api", _no_utf8(a_send(channels=["push", "sms"]), "sms"), "undecodable"),
    (
        "a character that begins in one channel and ends in the next",
        "send.api",
        a_send(channels=["pus.", ".ms"]).replace(b"pus.", b"pus\xc3").replace(b".ms", b"\xa9ms"),
        "undecodable",
    ),
    (
        "a reason that is no UTF-8",
        "outcome",
        _no_utf8(an_outcome([{"status": "sent", "reason": "why", "count": 1}]), "why"),
        "undecodable",
    ),
    ("a NUL in a reason", "outcome", an_outcome([{"status": "sent", "reason": "\0", "count": 1}]), "bad_text"),
]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (({"topic": "send.api", "timestamp_ms": produced_ms, "value": a_send(timestamp=at_ms)},), problem)
        for produced_ms, at_ms, problem in (
            (END_OF_TIME_MS - 1, END_OF_TIME_MS - 1, None),
            (END_OF_TIME_MS - 1, END_OF_TIME_MS, "far_future"),
            (-1, 2**63 - 1, "far_future"),  # Kafka's value for a record without a timestamp
        )
    ],
    indirect=["rows"],
)
def test_time_outside_the_date_range_is_quarantined(rows: list[dict[str, Any]], problem: str | None) -> None:
    assert [row["problem"] for row in rows] == [problem]


def test_writers_to_learn_are_those_of_unlearned_records(kafka_frame: ToFrame) -> None:
    """The archive looks for them before it decodes a record."""
    frame = kafka_frame([{"topic": topic, "value": value} for _, topic, value, _ in BAD])
    found = {tuple(row) for row in unknown_writers(frame, WRITERS).collect()}
    assert found == {("send", 99), ("send", 2**31 - 1), ("outcome", OWN_SEND)}
    unlearned = frame.transform(facts, writers=WRITERS, far_future_ms=2**40).where("problem = 'not_learned'")
    assert found == {tuple(row) for row in unlearned.select("source", "schema_id").collect()}


@pytest.fixture(scope="module")
def bad_rows(counted: ToRows) -> dict[int, dict[str, Any]]:
    """Stage all bad records between two good ones in one batch. Returns the rows by offset."""
    good: dict[str, Any] = {"topic": "send.api", "value": a_send()}
    records = [good, *({"topic": topic, "value": value} for _, topic, value, _ in BAD), good]
    rows = counted(records, WRITERS)
    assert len(rows) == len(records)
    return {row["kafka_offset"]: row for row in rows}


@pytest.mark.guarantee("postgres_answer.values_not_sent")
@pytest.mark.kills(guard="metrics.schema_id_range")
@pytest.mark.parametrize(("place", "problem"), [(i + 1, bad[3]) for i, bad in enumerate(BAD)], ids=[b[0] for b in BAD])
def test_bad_record_has_its_problem_and_counts_nothing(
    bad_rows: dict[int, dict[str, Any]], place: int, problem: str
) -> None:
    row = bad_rows[place]
    assert row["problem"] == problem
    assert row["measure"] is row["record_id"] is row["count_total"] is None


def test_bad_record_leaves_the_others_counted(bad_rows: dict[int, dict[str, Any]]) -> None:
    assert [bad_rows[place]["count_total"] for place in (0, len(BAD) + 1)] == [3, 3]


def test_event_of_an_earlier_year_is_quarantined(bad_rows: dict[int, dict[str, Any]]) -> None:
    assert [row["problem"] for row in bad_rows.values()].count("too_old") == 2


@with_rows_of(
    {"topic": "send.api", "value": a_send(timestamp=AT_MS - 40 * DAY_MS)},
    {"topic": "delivery", "value": a_delivery(built_at=AT_MS - 300 * DAY_MS)},
)
def test_event_of_weeks_ago_is_counted(rows: list[dict[str, Any]]) -> None:
    """A delivery record is retried until its expires_at, which may be next year."""
    assert [row["problem"] for row in rows] == [None, None]


@with_rows_of({"topic": "send.api", "value": a_send(timestamp=AT_MS + 3_600_000)})
def test_timestamp_an_hour_ahead_is_counted(rows: list[dict[str, Any]]) -> None:
    (row,) = rows
    assert row["problem"] is None


@pytest.fixture
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Make Spark print whole plans instead of truncated ones."""
    names = ("spark.sql.maxPlanStringLength", "spark.sql.debug.maxToStringFields")
    before = {name: spark.conf.get(name) or "" for name in names}
    for name in names:
        spark.conf.set(name, "1000000")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.usefixtures("whole_plans")
@pytest.mark.parametrize("filtered", [False, True])
def test_a_value_is_decoded_once(spark: SparkSession, kafka_frame: Callable[[Any], DataFrame], filtered: bool) -> None:
    """If the optimizer copied the decoding into its uses, each value would be decoded once for each column."""
    frame = facts(kafka_frame([]), writers=WRITERS, far_future_ms=0)
    frame = frame.where(F.col("problem").isNull()) if filtered else Lanes(spark, 2).rows(frame)
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    writers = sum(len(schemas) for schemas in WRITERS.values())
    assert plan.count("from_avro(") == writers


@pytest.mark.usefixtures("whole_plans")
def test_every_operator_is_compiled(kafka_frame: Callable[[Any], DataFrame]) -> None:
    """Spark compiles neither a lambda function nor the operator that contains it."""
    frame = facts(kafka_frame([]), writers=WRITERS, far_future_ms=0)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    operators = [line.lstrip(" +-:") for line in plan.splitlines() if line.strip()]
    assert len(operators) > 3
    assert [line for line in operators if not line.startswith("*(") and "Scan" not in line] == []


@pytest.fixture
def jvm_traces(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.pyspark.jvmStacktrace.enabled", "true")
    yield
    spark.conf.unset("spark.sql.pyspark.jvmStacktrace.enabled")


@pytest.mark.usefixtures("jvm_traces")
def test_method_of_a_whole_plan_is_not_executed(spark: SparkSession, kafka_frame: Callable[[Any], DataFrame]) -> None:
    """It has 30,000 bytes, and the JVM never compiles a method of more than 8,000 (`explain("codegen")` prints the
    size). The stack of an error names the generated classes that are executed.
    """
    records = kafka_frame([{"topic": "outcome", "value": b"x"}])
    rows = Lanes(spark, 2).rows(facts(records, writers=WRITERS, far_future_ms=0))
    with pytest.raises(PySparkException) as error:
        rows.select("*", F.raise_error("topic")).collect()
    executed = set(re.findall(r"GeneratedClass\$(\w+)", str(error.value)))
    assert executed
    assert [name for name in executed if name.startswith("GeneratedIterator")] == []


USUAL = {"type": "news", "club_id": 7, "timestamp": PRODUCED_MS, "send_id": "a", "to_users": [1, 2]}


@with_rows_of(
    *(
        {"topic": "send.api", "value": avro(OWN_SEND, USUAL | changes), "timestamp_ms": PRODUCED_MS}
        for changes, _ in CASES
    )
)
def test_job_counts_the_sends_that_preference_checker_accepts(rows: list[dict[str, Any]]) -> None:
    """tests/unit/preference_checker/test_check_preferences.py checks preference_checker with the same sends."""
    accepted = {row["kafka_offset"] for row in rows if row["problem"] is None}
    assert [(changes, place in accepted) for place, (changes, _) in enumerate(CASES)] == CASES
