"""CloudEvents 1.0 in the structured form (JSON): events of systems come in, and leave to endpoints that want it.

A CloudEvent is identified by its source and its id, and an event by its id in a club: two sources may use one id, so
that the id of an event contains a digest of the source.

Source: CloudEvents specification 1.0.2, "Context Attributes" and "JSON Event Format".
"""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from masscomm.domain.records import EventOccurred
from masscomm.integers import integer_or
from masscomm.texts import CodedText, Text

CONTENT_TYPE, BATCH_CONTENT_TYPE = "application/cloudevents+json", "application/cloudevents-batch+json"
VERSION = "1.0"
# The digits of the digest of a source, and the characters of an id, with which the event's id has 128 at most.
_DIGITS = 16
MAX_ID = 111
MAX_SOURCE = 2_000
_ID = re.compile(rf"[!-~]{{1,{MAX_ID}}}")
# The field of an event → the attribute that has it. `clubid` and `unit` are extension attributes.
ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {
        "event_id": "id",
        "type": "type",
        "club_id": "clubid",
        "unit": "unit",
        "key": "subject",
        "occurred_at": "time",
        "data": "data",
    }
)
# Attributes that are read, and are no field of an event.
_FURTHER = ("specversion", "source", "datacontenttype")
# Attributes that senders add by themselves, and that are ignored: the type has the schema.
_IGNORED = ("dataschema", "traceparent", "tracestate")
_REQUIRED = ("specversion", "id", "source", "type", "clubid", "data")


def event_id_of(source: str, id_: str) -> str:
    """Return the id of the event in a CloudEvent, such as `4711@0c5a1b2d3e4f5a6b`."""
    # guard: cloud_events.source_in_id
    return f"{id_}@{blake2b(source.encode(), digest_size=_DIGITS // 2).hexdigest()}"


def present(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a CloudEvent that are present: one that is null is absent."""
    return {name: value for name, value in attributes.items() if value is not None}


def problems_of(attributes: Mapping[str, Any]) -> Iterator[tuple[str, CodedText]]:
    """Yield each attribute that no event has, or that an event does not have. Those that are also fields of an event
    are checked as its fields.
    """
    known = {*ATTRIBUTES.values(), *_FURTHER, *_IGNORED}
    for name in sorted(attributes.keys() - known):
        yield name, Text.FIELD_UNKNOWN.filled()
    for name in _REQUIRED:
        if name not in attributes:
            yield name, Text.MISSING.filled()
    if attributes.get("specversion", VERSION) != VERSION:  # guard: cloud_events.version
        yield "specversion", Text.MUST_BE.filled(form=VERSION)
    id_, source = attributes.get("id", "-"), attributes.get("source", "-")
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        yield "id", Text.EVENT_ID_FORM.filled(maximum=MAX_ID)
    if not isinstance(source, str) or not 1 <= len(source) <= MAX_SOURCE:
        yield "source", Text.EVENT_KEY_FORM.filled(maximum=MAX_SOURCE)
    if not _is_json(attributes.get("datacontenttype", "application/json")):
        yield "datacontenttype", Text.MUST_BE.filled(form="application/json")


def fields_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the event in a CloudEvent without problems."""
    fields = {field: attributes[name] for field, name in ATTRIBUTES.items() if name in attributes}
    fields["event_id"] = event_id_of(attributes["source"], attributes["id"])
    if isinstance(club_id := fields["club_id"], str):
        # An integer of a CloudEvent has 32 bits: a larger one is a text.
        fields["club_id"] = integer_or(club_id, None)
    return fields


def cloud_event(event: EventOccurred, timestamp: str) -> str:
    """Return an event as a CloudEvent. Its source is the club, in which the event's id is unique.

    Args:
        event: The event.
        timestamp: The time of the event in RFC 3339.
    """
    attributes = {
        "specversion": VERSION,
        "id": event.event_id,
        "source": f"urn:masscomm:club:{event.club_id}",
        "type": event.type,
        "time": timestamp,
        "datacontenttype": "application/json",
        "clubid": str(event.club_id),
    }
    attributes |= {} if event.key is None else {"subject": event.key}
    attributes |= {} if event.unit is None else {"unit": event.unit}
    text = json.dumps(attributes, separators=(",", ":"), ensure_ascii=False)
    return f'{text[:-1]},"data":{event.data}}}'


def content_type_of(body: bytes) -> str:
    """Return the content type of a webhook's body, which says itself whether it is a CloudEvent."""
    if body.startswith(b'{"specversion":'):
        return CONTENT_TYPE
    return BATCH_CONTENT_TYPE if body.startswith(b'[{"specversion":') else "application/json"


def _is_json(media_type: Any) -> bool:
    kind = media_type.partition(";")[0].strip().lower() if isinstance(media_type, str) else ""
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
