"""The consumer of a monolith: it reads the preferences that users changed through masscomm, and applies them to the
monolith's tables. `examples/monolith` and `examples/crm` have such a consumer for their tables.

Each record is applied in one transaction, and its offset is committed afterwards, so that a crash repeats records. A
repeated or older record changes nothing, because the row has the version that was applied.
"""

import argparse
import io
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import fastavro
import httpx
import psycopg
from confluent_kafka import Consumer, KafkaException

TOPIC = "preference_change"
GROUP = "monolith.preferences"
_CHANNELS = ("push", "email", "sms")
_POLL_S = 1.0
_PAUSE_S = 2.0

# Applies the changes in a record to the user's row in one transaction. Returns whether the row was written.
type Apply = Callable[[psycopg.Connection[Any], Mapping[str, Any]], bool]


@cache
def schema(registry: str, schema_id: int) -> Any:
    answer = httpx.get(f"{registry}/schemas/ids/{schema_id}", timeout=30).raise_for_status()
    return fastavro.parse_schema(json.loads(answer.json()["schema"]))


def read_record(registry: str, value: bytes) -> dict[str, Any]:
    written_with = schema(registry, int.from_bytes(value[1:5], "big"))
    record: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), written_with, None)
    return dict(record)


def set_rules(channels: Any, categories: Any, record: Mapping[str, Any], applied: int) -> None:
    """Change the rules by the changes of a record that are newer than the applied version, in their order.

    Rules that are not JSON objects, such as [] or false, stay as they are, because they opt out of everything.
    """
    if not isinstance(channels, dict) or not isinstance(categories, dict):
        return
    for change in record["changes"]:
        if change["version"] > applied:
            _set(channels, categories, change)


def new_quiet_hours(record: Mapping[str, Any], applied: int) -> Mapping[str, Any] | None:
    """Return start and end (null: no quiet hours) if they have changed since the applied version; else None."""
    hours: Mapping[str, Any] | None = record["quiet_hours"]
    return hours if hours is not None and hours["version"] > applied else None


def _set(channels: dict[str, Any], categories: dict[str, Any], change: Mapping[str, Any]) -> None:
    category, channel, wanted = change["category"], change["channel"], change["wanted"]
    if category is None:
        _replace(channels, channel, wanted)
    elif channel is None:
        _replace(categories, category, wanted)
    else:
        known = _replace(categories, category, None)
        rules = dict(known) if isinstance(known, dict) else {} if known is None else dict.fromkeys(_CHANNELS, known)
        _replace(rules, channel, wanted)
        categories[category] = rules


def _replace(rules: dict[str, Any], name: str, setting: Any) -> Any:
    """Set a rule in the place of those under other spellings of its name, which masscomm compares without case and
    blanks. Return the earlier rule; of several rules, whether all are true.
    """
    spellings = [spelling for spelling in rules if _folded(spelling) == _folded(name)]
    known = [rule for spelling in spellings if (rule := rules.pop(spelling)) is not None]
    rules[name] = setting
    return known[0] if len(known) == 1 else all(rule is True for rule in known) if known else None


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()


def consume(
    kafka: Mapping[str, Any],
    registry: str,
    dsn: str,
    apply: Apply,
    is_ending: Callable[[], bool],
    ready: Callable[[], None],
) -> None:
    """Apply records until `is_ending` returns true. Records wait while the database or the registry is down.

    Args:
        kafka: The address of the brokers and the sign-in, as properties of a confluent-kafka client.
    """
    consumer = Consumer(
        {
            **kafka,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([TOPIC])
        ready()
        while not is_ending():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if error := message.error():
                if error.fatal():
                    raise KafkaException(error)
                continue
            while not is_ending():
                try:
                    with psycopg.connect(dsn) as connection:
                        apply(connection, read_record(registry, message.value() or b""))
                except (psycopg.OperationalError, httpx.HTTPError) as problem:
                    print(f"A record waits: {problem}", flush=True)
                    time.sleep(_PAUSE_S)
                else:
                    consumer.commit(message=message, asynchronous=False)
                    break
    finally:
        consumer.close()


def main(apply: Apply, sign_in: Mapping[str, Any] | None = None) -> None:
    """Apply records until the process gets SIGTERM or SIGINT.

    Args:
        apply: Applies the changes in a record.
        sign_in: The sign-in to Kafka, as properties of a confluent-kafka client; by default none.
    """
    parser = argparse.ArgumentParser(description="Write users' changed preferences to the monolith's tables.")
    parser.add_argument("--kafka", required=True, help="bootstrap servers")
    parser.add_argument("--registry", required=True, help="base URL of the schema registry's Confluent API")
    parser.add_argument("--dsn", help="the monolith's database; by default the variable MONOLITH_DATABASE_URL")
    parser.add_argument("--ready-file", type=Path, help="a file that is created once the topic is read")
    arguments = parser.parse_args()
    ending: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ending.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    consume(
        {"bootstrap.servers": arguments.kafka, **(sign_in or {})},
        arguments.registry,
        arguments.dsn or os.environ["MONOLITH_DATABASE_URL"],
        apply,
        lambda: bool(ending),
        (lambda: None) if arguments.ready_file is None else arguments.ready_file.touch,
    )
