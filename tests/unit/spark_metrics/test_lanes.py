"""A batch is divided into lanes by send, and each lane has its records with all values."""

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
from pyspark.sql import DataFrame, SparkSession

from masscomm.domain import ids
from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.domain.notification_codes import BLOCK, blocks_of, code_of
from masscomm.kafka.avro import own_schema
from spark_metrics.common.sources import DECISION
from spark_metrics.counting.facts import facts
from spark_metrics.counting.lane_merge import LaneRow, counts_of
from spark_metrics.counting.lanes import Lanes

AT_MS, MINUTE_MS = 1_700_000_000_000, 60_000
SCHEMA_ID = 70_000
OUTCOME = own_schema("NotificationOutcome")
SENDS = range(7)
RESULTS = [("sent", None), ("suppressed", "opted_out"), ("failed", "tab\tand \\ and\nline"), ("held", None)]


def an_outcome(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a random outcome with one result or several, for consecutive or arbitrary positions."""
    send = number % len(SENDS)
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
            {"status": status, "reason": reason, "count": index.count(place)} | decision(reason, place)
            for place, (status, reason) in enumerate(results)
        ],
        "result_index": index,
    }


def decision(reason: str | None, place: int) -> dict[str, Any]:
    by_user = reason == "opted_out"
    return {
        "layer": "user" if by_user else "provider",
        "rule": "channel:push" if by_user else None,
        "settings_version": place if by_user else None,
        "settings_changed_at": AT_MS if by_user else None,
    }


def encoded(value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(dict(OUTCOME)), value)
    return b"\0" + SCHEMA_ID.to_bytes(4, "big") + buffer.getvalue()


def a_record(offset: int, partition: int, value: bytes) -> dict[str, Any]:
    return {"topic": "outcome", "partition": partition, "offset": offset, "value": value, "timestamp_ms": AT_MS}


def facts_of(records: DataFrame) -> DataFrame:
    writers = {"outcome": {SCHEMA_ID: json.dumps(OUTCOME)}}
    return facts(records, writers=writers, far_future_ms=FAR_FUTURE_MS, recipients=True)


def divided(lanes: Lanes, records: DataFrame) -> DataFrame:
    return lanes.divided(lanes.rows(facts_of(records)))


LANES = 3


def test_lanes_have_each_record_with_all_values(spark: SparkSession, kafka_frame: Callable[[Any], DataFrame]) -> None:
    rng = random.Random(5)  # noqa: S311
    outcomes = [an_outcome(rng, number) for number in range(120)]
    records = [a_record(n, n % 3, encoded(value)) for n, value in enumerate(outcomes)]
    bad = [a_record(500 + n, 1, b"") for n in range(20)]
    rows = divided(Lanes(spark, LANES, recipients=True), kafka_frame([*records, *bad]))
    partitions = [[LaneRow(*row) for row in some] for some in rows.rdd.glom().collect()]

    assert len(partitions) == LANES
    for partition in partitions:
        assert len({row.lane for row in partition}) == 1
        assert all(row.hash % LANES == row.lane for row in partition)
        assert partition == sorted(partition, key=lambda row: (row.kafka_offset, row.topic, row.partition))
    by_offset = {row.kafka_offset: row for partition in partitions for row in partition}
    assert len({(row.send_id, row.hash) for row in by_offset.values() if row.send_id}) == len(SENDS)
    assert sorted(by_offset) == [*range(120), *range(500, 520)]
    assert {row.problem for offset, row in by_offset.items() if offset >= 500} == {"undecodable"}
    # Records without a send id are divided by their positions.
    assert {row.lane for offset, row in by_offset.items() if offset >= 500} == set(range(LANES))
    for offset, value in enumerate(outcomes):
        row = by_offset[offset]
        assert row.problem is None
        assert str(UUID(bytes=bytes(row.record_id or b""))) == value["record_id"]
        assert (row.send_id, row.club_id, row.type, row.at_ms, row.chunk_index) == (
            *(value["send_id"], value["club_id"], "news\t", value["timestamp"], value["chunk_index"]),
        )
        assert [tuple(count) for count in counts(row)] == [
            ("push", r["status"], r["reason"], r["count"]) for r in value["results"]
        ]
        assert states_of(row) == {
            position: RESULT_CODES[value["results"][result]["status"]]
            for position, result in zip(value["positions"], value["result_index"], strict=True)
        }
        decisions = {name: [result[name] for result in value["results"]] for name in DECISION}
        assert json.loads(row.decisions or "") == decisions
        assert users_of(row) == list(zip(value["result_index"], value["user_ids"], strict=True))


RESULT_CODES = {status: code_of(status, reason) for status, reason in RESULTS}


def counts(row: LaneRow) -> Sequence[Any]:
    return counts_of(row.several) if row.several else [(row.channel, row.measure, row.reason, row.total)]


def states_of(row: LaneRow) -> dict[int, int]:
    run = None if row.run is None else bytes(row.run)
    _, measure, reason, _ = counts(row)[0]
    blocks = blocks_of([(measure, reason, run, row.listed)])
    return {block * BLOCK + place: code for block, codes in blocks.items() for place, code in enumerate(codes) if code}


def users_of(row: LaneRow) -> list[tuple[int | None, int | None]]:
    if row.only is not None:
        return [(row.only, int(user)) for user in (row.users or "").split(",")]
    return list(zip(row.result_index or [], row.user_ids or [], strict=True))


def test_record_of_an_unknown_schema_comes_to_each_lane(
    spark: SparkSession, kafka_frame: Callable[[Any], DataFrame]
) -> None:
    """So no lane is merged before the schema is looked up."""
    rng = random.Random(6)  # noqa: S311
    unknown = b"\0" + (SCHEMA_ID + 1).to_bytes(4, "big") + b"x"
    records = [a_record(0, 0, unknown), *(a_record(n, 0, encoded(an_outcome(rng, n))) for n in range(1, 30))]
    rows = divided(Lanes(spark, 5), kafka_frame(records)).collect()
    assert sorted(row["lane"] for row in rows if row["kafka_offset"] == 0) == list(range(5))
    assert Counter(row["kafka_offset"] for row in rows) == Counter({0: 5} | dict.fromkeys(range(1, 30), 1))


def test_records_of_a_send_share_a_lane_if_tenants_disagree(
    spark: SparkSession, kafka_frame: Callable[[Any], DataFrame]
) -> None:
    """Their states are rows of one key, which two lanes would overwrite for each other."""
    rng = random.Random(7)  # noqa: S311
    values = [an_outcome(rng, number) | {"club_id": number} for number in range(70)]
    rows = divided(Lanes(spark, LANES), kafka_frame([a_record(n, 0, encoded(each)) for n, each in enumerate(values)]))
    found = {(row["send_id"], row["lane"]) for row in rows.collect()}
    assert len(found) == len(SENDS)


def test_batch_of_a_stream_is_one_job_of_two_stages(
    spark: SparkSession, kafka_frame: Callable[[Any], DataFrame], tmp_path: Path
) -> None:
    rng = random.Random(8)  # noqa: S311
    records = kafka_frame([a_record(n, n % 7, encoded(an_outcome(rng, n))) for n in range(70)])
    records.repartition(7).write.parquet(str(tmp_path / "records"))
    lanes = Lanes(spark, LANES)
    found: list[int] = []

    def count(rows: DataFrame, _: int) -> None:
        found.extend(lanes.divided(rows).rdd.mapPartitions(lambda lane: [sum(1 for _ in lane)]).collect())

    rows = lanes.rows(facts_of(spark.readStream.schema(records.schema).parquet(str(tmp_path / "records"))))
    writer = rows.writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert sum(found) == 70
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(query.runId)]
    # Spark 4.1 has adaptive execution in streams (spark.sql.adaptive.streaming.stateless.enabled), which begins a job
    # for each stage. The second job names the first one's stage once more, and does not run it.
    is_adaptive = not spark.version.startswith("4.0.")
    assert len(jobs) == (2 if is_adaptive else 1)
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    assert len(stages) == (3 if is_adaptive else 2)
    found_stages = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
    assert sum(info.numCompletedTasks > 0 for info in found_stages) == 2
