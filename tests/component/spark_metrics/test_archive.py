"""The archive beside a real Postgres: what is counted stands in it once, whatever wrote it."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from masscomm.errors import Stop
from masscomm.wire import own_schema
from spark_metrics.archive import Archive
from spark_metrics.archive_mark import claim
from spark_metrics.batches import count_batch
from spark_metrics.decode import Writers
from spark_metrics.recompute import Recompute
from spark_metrics.settings import Settings
from spark_metrics.sink import PostgresSink
from spark_metrics.span import Span
from spark_metrics.staging import Staging
from spark_metrics.transforms import facts
from spark_metrics.views import load_views
from tests.spark_session import PRODUCED_MS, PY4J_SOCKETS, Record, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

OLD, NEW = 1, 2
NOW = datetime.fromtimestamp(PRODUCED_MS / 1000, UTC)
# A version to come: one more field, and the others in another order.
LATER = own_schema("SendRequested") | {
    "fields": [
        {"name": "campaign", "type": ["null", "string"], "default": None},
        *reversed(own_schema("SendRequested")["fields"]),
    ]
}
SCHEMAS: dict[int, Any] = {OLD: own_schema("SendRequested"), NEW: LATER}
WRITERS: Writers = {"send": {number: json.dumps(schema) for number, schema in SCHEMAS.items()}}


def a_send(number: int, schema_id: int = OLD, **changes: Any) -> Record:
    value = {"type": "news", "club_id": 7, "timestamp": PRODUCED_MS, "to_users": [1, 2], "send_id": f"send {number}"}
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(SCHEMAS[schema_id]), value | changes)
    framed = b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()
    return {"topic": "send.api", "offset": number, "value": framed}


class Stream:
    """The job's batches, without Kafka and a process of its own."""

    def __init__(self, spark: SparkSession, kafka_frame: ToFrame, database: str, folder: Path) -> None:
        self.spark, self.frame = spark, kafka_frame
        self.settings = Settings(
            bootstrap_servers="", registry_url="", database_url=database, checkpoint_dir="", archive_dir=str(folder)
        )
        self.archive = Archive(spark, str(folder))
        self.sink = PostgresSink(database, views=load_views(self.settings.views))
        self.sink.take_over()
        claim(self.sink.connected(), self.archive)
        self.batches = 0

    def count(self, *records: Record) -> None:
        count_batch(
            self.facts(*records),
            staging=Staging(),
            batch_id=self.batches,
            sink=self.sink,
            database_url=self.settings.database_url,
            archive=self.archive,
            learn=lambda unknown: set(unknown),
        )
        self.batches += 1

    def facts(self, *records: Record) -> Any:
        return self.frame(records).transform(facts, writers=WRITERS, far_future_ms=86_400_000)

    def offsets(self) -> list[int]:
        """Of the archived records that are counted, each as often as it stands there."""
        frame = self.archive.read(self.archive.folders(self.sink.connected()))
        return sorted(row["kafka_offset"] for row in frame.select("kafka_offset").collect())

    def differing(self) -> int:
        """What recompute says of everything."""

        class WithWriters(Recompute):
            def _writers(self, wanted: Any) -> Writers:
                return WRITERS

        return WithWriters(self.settings, self.spark, Span()).run()


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[Stream]:
    stream = Stream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


def test_records_of_old_and_new_writers_are_read_as_one(stream: Stream) -> None:
    """A field is added, then an older writer comes again, then an older archive's files lack a column."""
    stream.count(a_send(0))
    stream.count(a_send(1, NEW, campaign="spring"), a_send(2, OLD))
    stream.count(a_send(3, OLD))
    before = {path: path.read_bytes() for path in Path(stream.archive.folder).rglob("*.parquet")}
    assert stream.offsets() == [0, 1, 2, 3]
    assert stream.differing() == 0
    # What nobody has understood yet stands in the bytes, and is read when somebody does.
    (value,) = (
        row["value"]
        for row in stream.archive.read(stream.archive.folders(stream.sink.connected())).collect()
        if row["schema_id"] == NEW
    )
    decoded = fastavro.schemaless_reader(io.BytesIO(bytes(value[5:])), fastavro.parse_schema(LATER), None)
    assert isinstance(decoded, dict)
    assert decoded["campaign"] == "spring"

    # As a version before and one after this would have written them.
    one = next(path for path in before if "batch=1" in str(path))
    narrow = stream.spark.read.parquet(str(one)).drop("chunk_index").withColumn("of_a_later_version", F.lit(1)).cache()
    assert narrow.count() == 1
    narrow.write.mode("overwrite").parquet(str(one.parent))
    narrow.unpersist()
    assert stream.offsets() == [0, 1, 2, 3]
    assert stream.differing() == 0
    assert all(path.read_bytes() == raw for path, raw in before.items() if path.parent != one.parent)


def test_another_archive_is_not_counted_again(stream: Stream, tmp_path: Path) -> None:
    stream.count(a_send(0))
    stream.settings = replace(stream.settings, archive_dir=str(tmp_path / "elsewhere"))
    with pytest.raises(Stop, match="holds no archive"):
        stream.differing()
