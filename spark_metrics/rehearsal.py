"""Counts batches of generated records before the stream begins, so that Spark has planned and compiled its code when
the first records arrive.

The batches are archived and merged, but each transaction is rolled back. The archive's files are in a separate folder,
which has no readers and is removed afterwards. The compiled code depends on the writers' schemas, so the records are
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

# The same columns as in spark_metrics.job.kafka_records, in the same order, because the compiled code depends on it.
_KAFKA = (
    "topic string, partition int, offset long, timestamp timestamp, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
# The number of records of each kind per batch: two batches that are planned as large ones, then two small ones.
# Staging.tasks depends on the size of the previous batch.
_ROUNDS = (2_000, 200, 200, 200)
# No topic has this partition. In a consumed partition the records would count as replays.
_PARTITION = -1
_EXAMPLES = {
    "send": ("SendRequested.full",),
    "delivery": ("DeliveryRequested.push",),
    # The positions of one outcome are consecutive, those of the other are a list.
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
    """Count generated records and roll back. Raises the errors of stage_batch and merge_batch."""
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
    """Yield rows of _KAFKA: `each` rows for every kind of record that a known schema can encode."""
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
    """Return the newest schema that can encode the examples, with its id; None if no schema can."""
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
