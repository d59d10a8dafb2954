"""The kinds of records that are counted, with their topics and the fields that the job reads."""

import json
from dataclasses import dataclass, replace
from typing import Any

from masscomm.domain.lanes import Lane
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema

type Fields = dict[str, "Fields | None"]


@dataclass(frozen=True)
class Source:
    """One kind of record.

    Attributes:
        kind: The name of the kind in the tables of counted ids.
        schema: The name of the Avro schema in schemas/.
        topic_names: Names in schemas/topics.yaml; the topics of every lane are read.
        fields: The fields that are counted.
        texts: Further fields that are decoded only to check that they are UTF-8. All other fields are skipped.
    """

    kind: str
    schema: str
    topic_names: tuple[str, ...]
    fields: Fields
    texts: tuple[str, ...] = ()

    def topics(self) -> list[str]:
        """Return the names of the topics in Kafka, in all lanes."""
        return list(dict.fromkeys(topics.in_lane(name, lane) for name in self.topic_names for lane in Lane))

    def reader_schema(self, *, texts: bool = False) -> str:
        """Return our schema as JSON with only these fields; values are resolved to it from each writer's schema."""
        wanted = self.fields | _names(*self.texts) if texts else self.fields
        return json.dumps(_projected(own_schema(self.schema), wanted))


def _names(*names: str) -> Fields:
    return dict.fromkeys(names)


SEND = Source(
    "send",
    "SendRequested",
    (topics.SEND_MONOLITH, topics.SEND_API),
    _names("type", "club_id", "timestamp", "to_users", "send_id", "chunk_index", "chunk_count", "channels"),
    # The functions cannot decode a send with an invalid text, so it has no outcomes and must not be counted as
    # requested.
    texts=("template", "data", "locale", "priority", "collapse_key", "reference", "principal", "send_at_local"),
)
DELIVERY = Source(
    "delivery",
    "DeliveryRequested",
    (topics.DELIVERY,),
    _names("record_id", "send_id", "club_id", "type", "built_at", "channel", "waits", "positions"),
)
OUTCOME = Source(
    "outcome",
    "NotificationOutcome",
    (topics.OUTCOME,),
    _names(
        *("record_id", "send_id", "club_id", "type", "channel", "timestamp"),
        *("chunk_index", "positions", "result_index"),
    )
    | {"results": _names("status", "reason", "count")},
)
SOURCES = (SEND, DELIVERY, OUTCOME)


def sources(*, recipients: bool) -> tuple[Source, ...]:
    """Return the sources, with the users of each outcome if the log of recipients needs them."""
    return (SEND, DELIVERY, replace(OUTCOME, fields=OUTCOME.fields | _names("user_ids"))) if recipients else SOURCES


def _projected(schema: Any, wanted: Fields | None) -> Any:
    """Return the schema with only the wanted fields, without logical types.

    Without logical types, timestamps are decoded as integers: every value can be checked, and none overflows.
    """
    if isinstance(schema, list):
        return [_projected(branch, wanted) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in ("logicalType", "doc")}
    if plain.get("type") == "record":
        chosen = [f for f in plain["fields"] if wanted is None or f["name"] in wanted]
        plain["fields"] = [
            {k: v for k, v in f.items() if k != "doc"}
            | {"type": _projected(f["type"], None if wanted is None else wanted[f["name"]])}
            for f in chosen
        ]
    elif plain.get("type") == "array":
        plain["items"] = _projected(plain["items"], wanted)
    elif "type" in plain:
        # {"type": "long", "logicalType": …} becomes "long"
        return plain["type"] if set(plain) == {"type"} else plain
    return plain
