"""Batches of generated records before the stream begins: Spark plans and compiles before the first records arrive.

They are archived and merged, but the transaction is rolled back, and the archive's files are in their own
folder, which no reader uses and which is removed. The compiled code depends on the writers' schemas, so the records are
encoded with the known schemas.
"""

import io
import json
import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from uuid import uuid4

import fastavro
from pyspark.sql import SparkSession

from spark_metrics.archive import Archive
from spark_metrics.batches import merge_batch, stage_batch
from spark_metrics.decode import HEADER, Writers
from spark_metrics.sink import PostgresSink
from spark_metrics.sources import SOURCES
from spark_metrics.staging import Staging
from spark_metrics.transforms import Facts

_log = logging.getLogger(__name__)

# The columns of spark_metrics.job.kafka_records: the compiled code depends on their order.
_KAFKA = (
    "topic string, partition int, offset long, timestamp timestamp, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
# Records of each kind: two batches as after a pause (Staging.tasks depends on the previous batch), two small ones.
_ROUNDS = (2_000, 200, 200, 200)
# A partition that no topic has: in a consumed partition these records would be replays.
_PARTITION = -1
_EXAMPLES = {
    "send": ("SendRequested.full",),
    "delivery": ("DeliveryRequested.push",),
    # One outcome with consecutive positions, and one with a list.
    "outcome": ("NotificationOutcome.sent", "NotificationOutcome.suppressed"),
}


def rehearse(
    spark: SparkSession,
    *,
    facts: Facts,
    writers: Writers,
    staging: Staging,
    sink: PostgresSink,
    database_url: str,
    archive: Archive | None,
) -> None:
    """Count generated records and undo it. Errors: those of stage_batch and merge_batch."""
    began = time.monotonic()
    aside = Archive(spark, f"{archive.folder}/_rehearsal") if archive is not None else None
    for number, each in enumerate(_ROUNDS):
        rows = list(_rows(writers, each))
        if not rows:
            return
        staged = stage_batch(
            spark.createDataFrame(rows, _KAFKA),
            facts,
            batch_id=number,
            staging=staging,
            sink=sink,
            database_url=database_url,
            archive=aside,
            learn=set,
            rehearsal=True,
        )
        merge_batch(staged, sink=sink, rehearsal=True)
    if aside is not None:
        aside.remove_all()
    _log.info("rehearsed %d batches in %.1f s", len(_ROUNDS), time.monotonic() - began)


def _rows(writers: Writers, each: int) -> Iterator[tuple[Any, ...]]:
    """Rows of _KAFKA, `each` for every kind that a known schema can encode."""
    now, offset = datetime.now(UTC), 0
    for source in SOURCES:
        examples = [_example(name) for name in _EXAMPLES[source.kind]]
        found = _writer_of(examples, writers.get(source.kind, {}))
        if found is None:
            continue
        schema_id, schema = found
        at = {name: int(now.timestamp() * 1000) for name in ("timestamp", "built_at", "requested_at")}
        for number in range(each):
            ids = {"record_id": str(uuid4()), "send_id": f"rehearsal {number % 20}", "chunk_index": number}
            value = examples[number % len(examples)] | ids | at
            if source.kind == "outcome" and number % len(examples) == 0:
                value |= {"positions": list(range(len(value["positions"])))}
            body = HEADER.pack(0, schema_id) + _encoded(schema, value)
            yield source.topics()[0], _PARTITION, offset, now, bytearray(body), None
            offset += 1


def _example(name: str) -> dict[str, Any]:
    example: dict[str, Any] = json.loads(files("schemas").joinpath("examples", f"{name}.json").read_text())
    return example


def _writer_of(examples: list[dict[str, Any]], writers: dict[int, str] | Any) -> tuple[int, Any] | None:
    """The newest schema that can encode the examples, parsed."""
    for schema_id in sorted(writers, reverse=True):
        schema = fastavro.parse_schema(json.loads(writers[schema_id]))
        try:
            for example in examples:
                _encoded(schema, example)
        except (ValueError, TypeError, KeyError):
            continue
        return schema_id, schema
    return None


def _encoded(schema: Any, value: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return buffer.getvalue()
