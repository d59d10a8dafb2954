"""Spark maps records of Kafka's source to records of its Kafka sink, each once."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from masscomm.errors import Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema
from masscomm.kafka.event_sources import event_sources
from spark_events.job import Counters, Job, output
from spark_events.record_mapping import RecordMapper
from spark_events.settings import Settings
from spark_metrics.common.settings import settings_of
from tests.support.servers.registry_server import ConfluentRegistry, serving
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)
_RECORDS = (
    "topic string, partition int, offset long, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
SOURCES: dict[str, Any] = {
    "sources": [
        {"name": "orders", "topics": ["orders"], "mapping": {"type": {"value": "a.b"}, "club_id": {"path": "club"}}}
    ]
}


def test_each_record_is_mapped_once(spark: SparkSession) -> None:
    values = [json.dumps({"club": place}).encode() if place else b"{" for place in range(4)]
    headers = [("trace", bytearray(b"\xff")), ("none", None)]
    produced_at = datetime.fromtimestamp(PRODUCED_MS / 1000, UTC)
    rows = [("orders", 1, place, produced_at, None, bytearray(value), headers) for place, value in enumerate(values)]
    with serving(answers := ConfluentRegistry()) as registry:
        answers.register("event-value", own_schema("EventOccurred"))
        mapper = RecordMapper(sources=event_sources(SOURCES), topic_ids={"orders": "id"}, registry_url=registry.url)
        counters = Counters.of(spark)
        found = output(spark.createDataFrame(rows, _RECORDS), mapper, counters).collect()
    events = [row for row in found if row.topic == topics.EVENT]
    assert [bytes(row.key) for row in events] == [b"id:1:1", b"id:1:2", b"id:1:3"]
    assert {row.headers for row in events} == {None}
    (letter,) = (row for row in found if row.topic == topics.DEAD_LETTER)
    assert bytes(letter.value) == b"{"
    assert ("trace", b"\xff") in [(header.key, bytes(header.value)) for header in letter.headers]
    assert counters.take() == {"events": 3, "dead_letters": 1}
    assert counters.take() == {"events": 0, "dead_letters": 0}


def test_invalid_file_ends_the_job_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    path.write_text(json.dumps({"sources": [{**SOURCES["sources"][0], "topics": ["*"]}]}))
    settings = Settings(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1", event_sources=str(path))
    with pytest.raises(Stop, match="a topic of masscomm or Kafka itself"):
        Job(settings)


def test_settings_name_the_file() -> None:
    with pytest.raises(Stop, match="SPARK_EVENT_SOURCES is not set"):
        settings_of(Settings, {"KAFKA_BOOTSTRAP_SERVERS": "k:1", "SCHEMA_REGISTRY_URL": "http://r"})
