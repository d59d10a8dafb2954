"""`python -m lab.benchmarks.naive.hop NUMBER --kafka ADDRESS`: a bare Kafka hop, which only passes on batches.

Three hops in a row have the minimum cost of any chain of three consumers: consume, produce, flush, commit.
"""

import argparse

from confluent_kafka import Consumer, Producer

HOPS = 3
BATCH_SIZE = 500


def topic(number: int) -> str:
    """Return the topic that hop `number` consumes; it is also the topic to which the previous hop produces."""
    return f"naive.hop{number}"


def run(number: int, bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic(number),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    consumer.subscribe([topic(number)], on_assign=lambda *_: print("ready", flush=True))
    while True:
        messages = [each for each in consumer.consume(BATCH_SIZE, 0.01) if each.error() is None]
        for message in messages:
            producer.produce(topic(number + 1), message.value())
        if messages:
            producer.flush()
            consumer.commit(asynchronous=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.naive.hop", description="A bare Kafka hop.")
    parser.add_argument("number", type=int)
    parser.add_argument("--kafka", required=True)
    chosen = parser.parse_args()
    run(chosen.number, chosen.kafka)


if __name__ == "__main__":
    main()
