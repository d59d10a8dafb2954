"""Removes one recipient's data from delayed records.

Every position of the record is kept, so that each recipient still gets one outcome. The user id is kept until the
record is released: the directory in OpenSearch then has no such user, and the recipient is suppressed. Messages with
events that concern the person are removed.
"""

import io
from collections.abc import Mapping
from typing import Any

import fastavro

from masscomm.domain.digests import without_members
from masscomm.domain.push_options import without_values
from masscomm.domain.records import WebhookRequested
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import SchemaRegistry, own_schema
from masscomm.kafka.bundled_schema import schema_header
from masscomm.observability.traces import Headers
from ops.erasure.addresses import without_addresses
from ops.erasure.person import ERASED_ADDRESS, Person
from ops.erasure.personal_events import PersonalEvents

# The topics whose delayed records are changed. Those of audiences have at most the id of a person; those of others wait
# for a schema, for a minute or two.
_CHANGED = (topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.RECEIPT, topics.WEBHOOK_SLOW)
# The length of the Avro header: a zero byte, and the schema id in four bytes. The id 0 stands for a schema that a
# header of the record names (masscomm.kafka.bundled_schema).
_HEADER, _BUNDLED = 5, 0
_ERASED = ""


class DelayedRecords:
    """Decodes and encodes delayed records with their original schemas, which `registry` returns."""

    def __init__(self, registry: SchemaRegistry, events: PersonalEvents) -> None:
        self._registry = registry
        self._events = events
        self._schemas: dict[int, Any] = {}

    def without(self, person: Person, topic: str, value: bytes, headers: Headers = ()) -> bytes | None:
        """Return the bytes of the record without the person's data; the same bytes if it contains none; None if it
        contains nothing else.

        Raises:
            DeadLetter: The registry has no schema with the record's id.
            Retry: The registry cannot be reached, or another version of the code has encoded the record.
            ValueError: The record does not match its schema. Other errors of fastavro are possible.
        """
        if topics.base_of(topic) not in _CHANGED:
            return value
        schema = self._schema(int.from_bytes(value[1:_HEADER], "big"), headers)
        record: Any = fastavro.schemaless_reader(io.BytesIO(value[_HEADER:]), schema, None)
        if topics.base_of(topic) == topics.WEBHOOK_SLOW:
            changed = self._events.without(person, record)
        else:
            changed = _erased(person, topics.base_of(topic), record)
        if changed is None:
            return None
        if changed == record:
            return value
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, changed)
        return value[:_HEADER] + buffer.getvalue()

    def _schema(self, schema_id: int, headers: Headers) -> Any:
        if schema_id == _BUNDLED:
            if schema_header(WebhookRequested) not in headers:  # guard: erasure.bundled_schema
                raise Retry("the record has another version of WebhookRequested: use that of the functions")
            return fastavro.parse_schema(own_schema("WebhookRequested"))
        if schema_id not in self._schemas:
            self._schemas[schema_id] = fastavro.parse_schema(self._registry.schema_by_id(schema_id))
        return self._schemas[schema_id]


def _erased(person: Person, topic: str, record: Mapping[str, Any]) -> dict[str, Any]:
    if topic == topics.RECEIPT:
        return {**record, "body": without_addresses(record["body"], person.addresses, ERASED_ADDRESS)}
    rows = [row for row, user_id in enumerate(record["user_ids"]) if user_id == person.user_id]
    if record["club_id"] != person.club_id or not rows:  # guard: erasure.other_tenants_user
        return dict(record)
    person.clubs.add(record["club_id"])
    alone = len(rows) == len(record["user_ids"])
    positions = {record["positions"][row] for row in rows}
    # Only a record with a single recipient has personal data in its template data, or in what its push shows.
    of_one: dict[str, Any] = {}
    if alone:
        collected = without_members(record.get("collected"))  # guard: erasure.contents_of_a_digest
        of_one = {"data": {}, "push": without_values(record.get("push")), "collected": collected}
    names = {str(position) for position in positions}
    own = {name: each for name, each in record.get("recipient_data", {}).items() if name not in names}
    values = {**of_one, "recipient_data": own}
    record = {**record, **{name: value for name, value in values.items() if name in record}}
    if topic != topics.DELIVERY:
        return record
    for row in rows:
        if row < len(record["addresses"]):
            person.learn_address(record["addresses"][row])
    return {
        **record,
        "addresses": [_ERASED if row in rows else text for row, text in enumerate(record["addresses"])],
        "content": [_without_values(column, rows, alone=alone) for column in record["content"]],
        "taken": [{**each, "target": _ERASED} if each["position"] in positions else each for each in record["taken"]],
    }


def _without_values(column: Mapping[str, Any], rows: list[int], *, alone: bool) -> dict[str, Any]:
    """Return a content column (the texts of one field) with empty texts for these recipients. Unused texts are
    removed.
    """
    if alone:
        return {**column, "values": [_ERASED], "index": []}
    if not column["index"]:
        return dict(column)  # An empty index means that all recipients share one text.
    texts = [_ERASED if row in rows else column["values"][place] for row, place in enumerate(column["index"])]
    values = list(dict.fromkeys(texts))
    return {**column, "values": values, "index": [values.index(text) for text in texts]}
