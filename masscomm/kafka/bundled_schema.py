"""Lets a function without a connection to the schema registry decode records of masscomm.

The producer names the writer's schema in a header, by a digest. The consumer has the schema in its package: a record
with another digest was produced by another version, and is retried until the consumer is deployed.

Such a function encodes records with the id 0, which no registry has, and puts them into the delay store; the scheduler
sets the id when it releases them.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from masscomm.domain.records import AvroRecord
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import Codec, own_schema
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import chain_topics

HEADER = "masscomm.schema"
# The bytes before a value whose schema has no id yet.
_NO_ID = bytes(5)


def schema_header(kind: type[AvroRecord]) -> tuple[str, bytes]:
    """Return the header that names the schema of a class of records."""
    return HEADER, _digest(kind.__name__)


@cache
def _digest(name: str) -> bytes:
    text = json.dumps(own_schema(name), sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32].encode()


def check_schema(record: KafkaRecord, kind: type[AvroRecord]) -> None:
    """Check that this version of the code has the schema of a record.

    Raises:
        DeadLetter: The record names no schema: masscomm has not produced it.
        Retry: Another version of the code has produced it.
    """
    name, digest = schema_header(kind)
    found = record.header(name)
    if found is None:
        raise DeadLetter("undecodable", f"the record has no header {name}")
    if found != digest:  # guard: registry.bundled_schema
        raise Retry(f"the record has another version of {kind.__name__}: deploy all functions")


def with_schema_id(value: bytes, headers: Iterable[tuple[str, bytes]], topic: str, codec: Codec) -> bytes:
    """Return a value that a function without a registry has encoded, with the id of its schema; others unchanged.

    Raises:
        Retry: Another version of the code has encoded it, or the registry does not answer.
        Stop: The schema is not deployed.
    """
    if not value.startswith(_NO_ID):
        return value
    schema = next((each.schema for each in chain_topics() if each.name == topic), None)
    if schema is None:
        return value
    if (HEADER, _digest(schema)) not in headers:  # guard: registry.schema_of_released_record
        raise Retry(f"the record has another version of {schema}: deploy all functions")
    return codec.prefix(topic, schema) + value[len(_NO_ID) :]


class BundledSchema:
    """The registry of a function that decodes one class of records, after `check_schema`."""

    def __init__(self, kind: type[AvroRecord]) -> None:
        self._name = kind.__name__

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:  # noqa: ARG002 - the header names the schema
        return own_schema(self._name)

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:  # noqa: ARG002 - `with_schema_id` sets it
        return 0
