"""The staged rows of a batch have the same sums, ids and states as if its records were counted one by one."""

import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import fastavro
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.domain import ids
from masscomm.domain.statuses import RANK, Status
from masscomm.kafka.avro import own_schema
from spark_metrics.facts import facts
from spark_metrics.staging import REFUSED, TABLES, Rows, Staging, rows_of
from spark_metrics.states import BLOCK, blocks_of, status_of

AT_MS, DAY_MS, MINUTE_MS = 1_700_000_000_000, 86_400_000, 60_000
SCHEMA_ID = 70_000
OUTCOME = own_schema("NotificationOutcome")
RESULTS = [("sent", None), ("suppressed", "opted_out"), ("failed", "tab\tand \\ and\nline"), ("held", None)]


def an_outcome(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a random outcome with one result or several, for consecutive or arbitrary positions."""
    send = number % 3
    results = rng.sample(RESULTS, rng.choice([1, 1, 2, 3]))
    n, first = rng.randrange(1, 9), rng.randrange(1_000)
    positions = list(range(first, first + n)) if rng.random() < 0.5 else rng.sample(range(1_200), n)
    index = [rng.randrange(len(results)) for _ in positions]
    return {
        "record_id": ids.derived_id(f"send {send}", "outcome.delivery", "push", number, number + 1),
        "parent_id": "p",
        "step": "delivery",
        "send_id": f"send {send}",
        "chunk_index": rng.randrange(2),
        "range_start": 0,
        "range_end": 2_000,
        "club_id": send,
        "type": "news\t",
        "channel": "push",
        "timestamp": AT_MS + rng.randrange(3 * MINUTE_MS),
        "requested_at": AT_MS,
        "positions": positions,
        "user_ids": positions,
        "results": [
            {"status": status, "reason": reason, "count": index.count(place)}
            for place, (status, reason) in enumerate(results)
        ],
        "result_index": index,
    }


def encoded(value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(dict(OUTCOME)), value)
    return b"\0" + SCHEMA_ID.to_bytes(4, "big") + buffer.getvalue()


def unescaped(field: str) -> str | None:
    """Decode a field of Postgres' text format of COPY."""
    if field == "\\N":
        return None
    return field.encode("latin-1").decode("unicode_escape")


def a_record(offset: int, partition: int, value: bytes) -> dict[str, Any]:
    return {"topic": "outcome", "partition": partition, "offset": offset, "value": value, "timestamp_ms": AT_MS}


def facts_of(records: DataFrame) -> DataFrame:
    writers = {"outcome": {SCHEMA_ID: json.dumps(OUTCOME)}}
    return facts(records, writers=writers, far_future_ms=DAY_MS, recipients=True)


def staged(frame: DataFrame) -> Rows:
    return rows_of(Staging(recipients=True).groups(frame).collect())


def named(table: str, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return staged rows, given as COPY lines or tuples, as dictionaries by column."""
    values = [map(unescaped, row.split("\t")) if isinstance(row, str) else row for row in rows]
    return [dict(zip(TABLES[table], row, strict=True)) for row in values]


def test_staged_rows_agree_with_each_record(kafka_frame: Callable[[Any], DataFrame]) -> None:
    rng = random.Random(5)  # noqa: S311
    outcomes = [an_outcome(rng, number) for number in range(120)]
    records = [a_record(n, n % 3, encoded(value)) for n, value in enumerate(outcomes)]
    bad = [a_record(500 + n, 1, b"") for n in (0, 1)]
    refused = {4, 17, 18}
    marked = F.when(F.col("kafka_offset").isin(refused), F.lit(REFUSED))
    rows = staged(facts_of(kafka_frame([*records, *bad])).withColumn("problem", F.coalesce("problem", marked)))

    counted = [value for n, value in enumerate(outcomes) if n not in refused]
    (staged_ids,) = named("staging_ids", rows["staging_ids"])
    packed = staged_ids["ids"]
    assert Counter(str(UUID(bytes=packed[i : i + 16])) for i in range(0, len(packed), 16)) == Counter(
        value["record_id"] for value in counted
    )

    redelivered = named("staging_redelivered", rows["staging_redelivered"])
    assert {(row["kafka_offset"], str(UUID(row["record_id"]))) for row in redelivered} == {
        (str(n), outcomes[n]["record_id"]) for n in refused
    }

    totals: Counter[tuple[Any, ...]] = Counter()
    begun: Counter[str] = Counter()
    for row in named("staging_counts", rows["staging_counts"]):
        assert row["type"] == "news\t"
        totals[row["send_id"], int(row["minute_s"] or 0), row["measure"], row["reason"]] += int(row["count_total"] or 0)
        begun[row["send_id"] or ""] += int(row["records"] or 0)
    expected: Counter[tuple[Any, ...]] = Counter()
    for value in counted:
        for result in value["results"]:
            minute = value["timestamp"] // MINUTE_MS * 60
            expected[value["send_id"], minute, result["status"], result["reason"]] += result["count"]
    assert +totals == +expected
    assert begun == Counter(value["send_id"] for value in counted)

    positions = named("staging_positions", rows["staging_positions"])
    assert {row["partition"]: (row["first_offset"], row["last_offset"], row["records"]) for row in positions} == {
        "0": ("0", "117", "40"),
        "1": ("1", "501", "42"),
        "2": ("2", "119", "40"),
    }
    problems = named("staging_problems", rows["staging_problems"])
    assert {(row["kafka_offset"], row["problem"]) for row in problems} == {
        ("500", "undecodable"),
        ("501", "undecodable"),
    }

    chunks = defaultdict(list)
    for row in named("staging_states", rows["staging_states"]):
        entry = (row["status"], row["reason"], row["runs"], row["listed"])
        chunks[row["send_id"], row["chunk_index"]].append(entry)
    known = {
        (*chunk, block * BLOCK + place): status_of(code)[0]
        for chunk, entries in chunks.items()
        for block, codes in blocks_of(entries).items()
        for place, code in enumerate(codes)
        if code
    }
    said: dict[tuple[Any, ...], str] = {}
    for value in counted:
        for position, result in zip(value["positions"], value["result_index"], strict=True):
            place = (value["send_id"], value["chunk_index"], position)
            status = value["results"][result]["status"]
            if place not in said or RANK[Status(status)] > RANK[Status(said[place])]:
                said[place] = status
    assert known == said
    assert {bool(row["listed"]) for row in named("staging_states", rows["staging_states"])} == {True, False}

    log = [
        (row["send_id"], row["type"], row["status"], row["reason"], int(row["at_ms"] or 0), int(user))
        for row in named("staging_recipients", rows["staging_recipients"])
        for user in (row["user_ids"] or "").strip("{}").split(",")
    ]
    assert Counter(log) == Counter(
        (value["send_id"], "news\t", result["status"], result["reason"], value["timestamp"], user)
        for value in counted
        for user, result in zip(value["user_ids"], (value["results"][n] for n in value["result_index"]), strict=True)
    )


def test_equal_counts_of_several_partitions_are_one_row(kafka_frame: Callable[[Any], DataFrame]) -> None:
    rng = random.Random(5)  # noqa: S311
    same = {"send_id": "send", "club_id": 7, "timestamp": AT_MS}
    result = {"chunk_index": 0, "results": [{"status": "sent", "reason": None, "count": 1}], "result_index": [0]}
    outcomes = [an_outcome(rng, n) | same | result | {"positions": [n]} for n in range(8)]
    nobody: dict[str, Any] = {"results": [], "result_index": [], "positions": []}
    outcomes += [an_outcome(rng, 8 + n) | same | nobody | {"chunk_index": n} for n in range(8)]
    rows = staged(facts_of(kafka_frame([a_record(n, n % 4, encoded(value)) for n, value in enumerate(outcomes)])))
    assert {table: len(some) for table, some in rows.items()} == {
        "staging_counts": 2,
        "staging_states": 1,
        "staging_recipients": 8,
        "staging_ids": 1,
        "staging_positions": 4,
    }
