"""The topics that the job reads, with methods that fill them."""

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import fastavro
from confluent_kafka import Producer

from local.devstack.config import StackConfig
from masscomm.kafka.avro import own_schema


@dataclass
class Topics:
    """Produces records to the job's topics. schema_ids: subject → schema id."""

    config: StackConfig
    schema_ids: dict[str, int]

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.config.kafka_bootstrap, "linger.ms": 1, "log_level": 0})

    def put(self, topic: str, value: bytes | None, then: Callable[[str, int, int, int], None] | None = None) -> None:
        """Produce a record. `then` receives its topic, partition, offset and timestamp."""

        def delivered(error: Any, message: Any) -> None:
            assert error is None
            if then is not None:
                then(message.topic(), message.partition(), message.offset(), message.timestamp()[1])

        self.producer.produce(topic, value, key=uuid4().bytes, on_delivery=delivered)

    def flush(self) -> float:
        """Flush the producer. Returns a later time, in seconds since the epoch."""
        assert self.producer.flush(30) == 0
        return time.time()

    def encoded(self, topic: str, schema: Mapping[str, Any], schema_id: int, value: Mapping[str, Any]) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro.parse_schema(dict(schema)), value)
        return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()

    def own(self, topic: str, schema: str, value: Mapping[str, Any]) -> bytes:
        return self.encoded(topic, own_schema(schema), self.schema_ids[f"{topic}-value"], value)

    def poison(self, topic: str) -> list[bytes | None]:
        """Return values that the job cannot count."""
        known = self.schema_ids[f"{topic}-value"].to_bytes(4, "big")
        unknown = (2**31 - 2).to_bytes(4, "big")
        no_ids = [b"\0\xff\xff\xff\xff", b"\0\x80\0\0\0 any", b"\0\0\0\0\0"]
        return [None, b"", b"not Avro", *no_ids, b"\0\x7f\xff\xff\xff any", b"\0" + unknown, b"\0" + known + b"\x02"]
