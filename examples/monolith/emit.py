"""Request notifications as the monolith does: Avro records in the Confluent wire format on a Kafka topic.

    python -m examples.monolith.emit --kafka localhost:9092 --registry http://localhost:8081/apis/ccompat/v7 \\
        --club 1 --type news --user 1 --user 2 --data headline="We won"

A send is one record, or several chunks with the same send_id if it has more recipients than a chunk holds.
Provisioning has registered the schema: a producer only looks up its id.

With KAFKA_AUTHENTICATION=aws_msk_iam and AWS_REGION it signs in to Amazon MSK, as the functions do.
"""

import argparse
import io
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import fastavro.schema
import httpx
from confluent_kafka import KafkaError, Message, Producer

from masscomm.aws.authentication import kafka_client_config

TOPIC = "send.monolith"
CHUNK_SIZE = 2_500
SCHEMA_FILE = Path(__file__).parents[2] / "schemas" / "SendRequested.avsc"


class NotDelivered(Exception):
    """Kafka did not acknowledge all records; the message has the first error."""


@dataclass(frozen=True)
class Written:
    """The position of a record in Kafka."""

    topic: str
    partition: int
    offset: int
    # The record's timestamp in milliseconds since the epoch.
    timestamp: int


class Emitter:
    """A producer of sends. As a context manager it flushes and closes the producer at the end.

    Every method raises httpx.HTTPError (the registry does not respond or does not have the schema), NotDelivered, or
    ValueError (the values do not match the schema).
    """

    def __init__(
        self,
        kafka: str,
        registry: str,
        *,
        topic: str = TOPIC,
        timeout_s: float = 30.0,
        sign_in: Mapping[str, Any] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        """Connect a producer.

        Args:
            kafka: The addresses of the Kafka brokers.
            registry: The base URL of the registry's Confluent API.
            topic: The topic of the bulk lane.
            timeout_s: The maximum time until the broker acknowledges a record.
            sign_in: The sign-in to the brokers, as properties of a confluent-kafka client; by default none.
            logger: The logger for the client's log lines; None: the client logs to standard error.
        """
        self._topic = topic
        self._registry = registry.rstrip("/")
        self._timeout_s = timeout_s
        self._ids: dict[str, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "linger.ms": 0,
                "compression.type": "lz4",
                "message.timeout.ms": int(timeout_s * 1000),
                "log_level": 3,
                **(sign_in or {}),
                **({"logger": logger} if logger is not None else {}),
            }
        )
        self._schema = SCHEMA_FILE.read_text()

    def __enter__(self) -> "Emitter":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(self._timeout_s)
        # An open producer would log connection errors when the broker stops, so it is closed.
        self._producer.close()

    def send(
        self,
        type: str,
        club_id: int,
        to_users: Sequence[int],
        *,
        critical: bool = False,
        chunk_size: int = CHUNK_SIZE,
        send_id: str | None = None,
        **options: Any,
    ) -> str:
        """Produce one send, and return its id when Kafka has acknowledged all its chunks.

        Args:
            type: The category.
            club_id: The tenant.
            to_users: The recipients.
            critical: Whether to use the critical lane.
            chunk_size: The maximum number of recipients of a record.
            send_id: The id of the send; None: a new id.
            options: Other fields of SendRequested: channels, template, data, locale, expires_at, collapse_key, …
        """
        send_id = send_id or str(uuid4())
        topic = self._in_lane(critical)
        chunks = [to_users[start : start + chunk_size] for start in range(0, len(to_users), chunk_size)] or [to_users]
        common = {"priority": "critical" if critical else None} | options
        common |= {"type": type, "club_id": club_id, "timestamp": time.time_ns() // 1_000_000, "send_id": send_id}
        self._write(
            topic,
            [
                common | {"to_users": list(chunk), "chunk_index": index, "chunk_count": len(chunks)}
                for index, chunk in enumerate(chunks)
            ],
        )
        return send_id

    def send_minimal(self, type: str, club_id: int, to_users: Sequence[int]) -> Written:
        """Produce one send with the four required fields. Its id is derived from the record's position in Kafka."""
        value = {
            "type": type,
            "club_id": club_id,
            "timestamp": time.time_ns() // 1_000_000,
            "to_users": list(to_users),
        }
        return self._write(self._topic, [value])[0]

    def send_bytes(self, value: bytes, *, critical: bool = False) -> Written:
        """Produce bytes without encoding them, like a broken producer."""
        return self._produce(self._in_lane(critical), [value])[0]

    def _in_lane(self, critical: bool) -> str:
        return f"{self._topic}.critical" if critical else self._topic

    def _write(self, topic: str, values: Sequence[Mapping[str, Any]]) -> list[Written]:
        schema_id = self._schema_id(f"{topic}-value")
        parsed = fastavro.schema.parse_schema(json.loads(self._schema))
        records = []
        for value in values:
            buffer = io.BytesIO()
            buffer.write(b"\x00" + schema_id.to_bytes(4, "big"))
            fastavro.schemaless_writer(buffer, parsed, value, strict_allow_default=True)
            records.append(buffer.getvalue())
        return self._produce(topic, records)

    def _produce(self, topic: str, records: Sequence[bytes]) -> list[Written]:
        """Produce records, and return their positions in the same order when all are acknowledged."""
        results: dict[int, Written | KafkaError] = {}

        def report(index: int) -> Callable[[KafkaError | None, Message], None]:
            def delivered(error: KafkaError | None, message: Message) -> None:
                results[index] = error or Written(
                    topic, message.partition() or 0, message.offset() or 0, message.timestamp()[1]
                )

            return delivered

        for index, record in enumerate(records):
            self._producer.produce(topic, record, on_delivery=report(index))
        self._producer.flush(self._timeout_s)
        written = [result for _, result in sorted(results.items()) if isinstance(result, Written)]
        if len(written) < len(records):
            errors = [str(result) for result in results.values() if isinstance(result, KafkaError)]
            raise NotDelivered(
                f"{len(records) - len(written)} of {len(records)} records: {(errors or ['no answer'])[0]}"
            )
        return written

    def _schema_id(self, subject: str) -> int:
        """Return the id of the schema under the subject."""
        if subject not in self._ids:
            answer = httpx.post(
                f"{self._registry}/subjects/{subject}", json={"schema": self._schema}, timeout=self._timeout_s
            )
            self._ids[subject] = int(answer.raise_for_status().json()["id"])
        return self._ids[subject]


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r} does not have the form key=value")
    return key, value


def main() -> None:
    parser = argparse.ArgumentParser(description="Request a send as the monolith does.")
    parser.add_argument("--kafka", required=True, help="bootstrap servers")
    parser.add_argument("--registry", required=True, help="base URL of the schema registry's Confluent API")
    parser.add_argument("--club", type=int, required=True)
    parser.add_argument("--type", required=True, help="the category, e.g. news")
    parser.add_argument("--user", type=int, action="append", required=True, help="a recipient; may be repeated")
    parser.add_argument(
        "--channel", action="append", default=[], help="push, email or sms; default: the category's channels"
    )
    parser.add_argument(
        "--data", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a value for the template"
    )
    parser.add_argument("--critical", action="store_true", help="use the critical lane, which bulk sends never delay")
    parser.add_argument("--minimal", action="store_true", help="produce the four required fields only")
    arguments = parser.parse_args()
    with Emitter(arguments.kafka, arguments.registry, sign_in=kafka_client_config()) as emitter:
        if arguments.minimal:
            print(emitter.send_minimal(arguments.type, arguments.club, arguments.user))
        else:
            print(
                emitter.send(
                    arguments.type,
                    arguments.club,
                    arguments.user,
                    critical=arguments.critical,
                    channels=arguments.channel,
                    data=dict(arguments.data),
                )
            )


if __name__ == "__main__":
    main()
