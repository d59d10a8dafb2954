"""Print the outcome of each notification as one line of JSON.

python -m examples.read_outcomes 127.0.0.1:9092 http://127.0.0.1:8081/apis/ccompat/v7
"""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import fastavro
import httpx
from confluent_kafka import Consumer, KafkaException


@cache
def schema(registry: str, schema_id: int) -> Any:
    answer = httpx.get(f"{registry}/schemas/ids/{schema_id}").raise_for_status()
    return fastavro.parse_schema(json.loads(answer.json()["schema"]))


def read_outcomes(consumer: Consumer, registry: str) -> Iterator[dict[str, Any]]:
    consumer.subscribe(["outcome"])
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if error := message.error():
            raise KafkaException(error)
        value = message.value() or b""
        written_with = schema(registry, int.from_bytes(value[1:5], "big"))
        record: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), written_with, None)
        for user_id, index in zip(record["user_ids"], record["result_index"], strict=True):
            result = {name: record["results"][index][name] for name in ("status", "reason", "rule")}
            yield {"send_id": record["send_id"], "user_id": user_id, "channel": record["channel"], **result}
        # The offset is committed after the last recipient: a crash repeats some of them, and loses none.
        consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    kafka, registry_url = sys.argv[1:]
    group = {"group.id": "my-outcomes", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    # Ctrl-C ends it.
    with suppress(KeyboardInterrupt):
        for outcome in read_outcomes(Consumer({"bootstrap.servers": kafka, **group}), registry_url):
            print(json.dumps(outcome), flush=True)
