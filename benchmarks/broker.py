"""Measure the processor time of Kafka's broker: `python -m benchmarks.broker`.

The benchmark starts a broker on free ports. It prints the broker's processor time at rest (without clients, and with
waiting consumers) in milliseconds per second, and the processor time of broker and producer per produced record, by
compression, in microseconds. The records are those of a broadcast: a delivery record and an outcome of 500 recipients,
each flushed alone as at the end of an invocation, with the settings of masscomm/kafka/producer.py.

Measured on two shared cores: 19 ms per second at rest, and 1.6 ms more for each waiting consumer; 0.2 ms per record
without compression, and 0.3 to 0.4 ms with lz4 or zstd. A broadcast has 0.007 records per recipient, so most of the
broker's time is time at rest.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
from confluent_kafka import Consumer
from rich.console import Console
from rich.table import Table

from benchmarks.processor_time import of_process
from devstack.config import StackConfig
from devstack.provision import create_topics
from devstack.stack import Stack
from masscomm.domain.outcomes import RANGE_SIZE, RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import AvroRecord
from masscomm.domain.statuses import Status
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import KafkaProducer
from tests.support.harness.chain import delivery, registry_with_all_schemas

CHOSEN = "lz4"
COMPRESSIONS = ("none", CHOSEN, "zstd")
FLUSH_S = 15.0


def records() -> dict[str, bytes]:
    written = delivery(range(1, RANGE_SIZE + 1), record_id=str(uuid4()))
    sent = [
        RecipientOutcome(position, user_id, Decision(Status.SENT, None, "provider"), (str(uuid4()),))
        for position, user_id in enumerate(written.user_ids)
    ]
    emitted = outcome(written, sent, channel="push", step="delivery", start=0, end=RANGE_SIZE, now_ms=1, directory=None)
    codec = Codec(registry_with_all_schemas())
    found: dict[str, AvroRecord] = {topics.DELIVERY: written, topics.OUTCOME: emitted}
    return {topic: codec.encode(topic, type(record).__name__, record.to_avro()) for topic, record in found.items()}


def rest_ms(server: psutil.Process, seconds: float) -> float:
    """Return the broker's processor time in milliseconds per second while it is at rest."""
    before = of_process(server)
    time.sleep(seconds)
    return (of_process(server) - before) / seconds * 1000


def produced_us(
    server: psutil.Process, producer: KafkaProducer, topic: str, value: bytes, count: int
) -> tuple[float, float]:
    """Return the processor times of the broker and of this process in microseconds per record."""

    def check(error: Exception | None) -> None:
        if error is not None:
            raise SystemExit(f"Kafka refused a record: {error}")

    before, own = of_process(server), time.process_time()
    for _ in range(count):
        producer.produce(topic, b"key", value, [], check)
        producer.flush(FLUSH_S)
    return (of_process(server) - before) / count * 1e6, (time.process_time() - own) / count * 1e6


def producer(bootstrap: str, compression: str) -> KafkaProducer:
    """Return the functions' producer with another compression."""
    # log_level 0 suppresses librdkafka's errors about the broker, which ends before the producer.
    overrides: dict[str, Any] = {"compression.type": compression, "log_level": 0}
    return KafkaProducer(bootstrap, **overrides)


def waiting(bootstrap: str, count: int) -> list[Consumer]:
    """Return consumers that wait for records, as the pollers of emulators/event_source do."""
    consumers = []
    for number in range(count):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"waiting-{number}", "fetch.wait.max.ms": 500})
        consumer.subscribe([topics.RECHECK])
        consumers.append(consumer)
    for consumer in consumers:
        while not consumer.assignment():
            consumer.poll(0.1)
    return consumers


def main() -> None:
    arguments = argparse.ArgumentParser(description="Processor time of Kafka's broker.")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--records", type=int, default=300)
    arguments.add_argument("--consumers", type=int, default=20)
    arguments.add_argument("--rest", type=float, default=10.0, help="seconds at rest")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = StackConfig.on_free_ports(Path(folder))
        with Stack(config, ["kafka"]) as stack:
            create_topics(config.kafka_bootstrap, topics.chain_topics())
            server = psutil.Process(stack.pid("kafka"))
            found: dict[tuple[str, str], list[tuple[float, float]]] = {}
            values = records()
            producers = {name: producer(config.kafka_bootstrap, name) for name in COMPRESSIONS}
            for _ in range(chosen.rounds + 1):
                for topic, value in values.items():
                    for name, each in producers.items():
                        times = produced_us(server, each, topic, value, chosen.records)
                        found.setdefault((topic, name), []).append(times)
            alone = rest_ms(server, chosen.rest)
            consumers = waiting(config.kafka_bootstrap, chosen.consumers)
            with_consumers = rest_ms(server, chosen.rest)
            for consumer in consumers:
                consumer.close()
    console = Console()
    console.print(f"at rest: {alone:.1f} ms/s, with {chosen.consumers} waiting consumers: {with_consumers:.1f} ms/s")
    table = Table("record", "bytes", "compression", "broker µs a record", "producer µs a record")
    for (topic, name), rounds in found.items():
        # The first round is a warm-up of the JVM.
        of_broker, of_producer = (statistics.median(each[side] for each in rounds[1:]) for side in (0, 1))
        shown = f"{name} (chosen)" if name == CHOSEN else name
        table.add_row(topic, f"{len(values[topic]):,}", shown, f"{of_broker:.0f}", f"{of_producer:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
