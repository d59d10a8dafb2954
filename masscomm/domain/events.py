"""The rules for occurred events, their types and their units. An occurred event is a record of the topic `event`."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from masscomm.domain.cloud_events import cloud_event
from masscomm.domain.ids import event_message_id
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.records import EventOccurred
from masscomm.domain.units import unit_problem
from masscomm.domain.webhooks import API_VERSION, BodyFormat
from masscomm.texts import CodedText, Text

# The largest data of an event in UTF-8. The design point is 1 kB.
MAX_EVENT_DATA_BYTES = 65_536
MAX_EVENT_ID = 128
MAX_EVENT_TYPE, MAX_TYPE_PARTS = 128, 8
MAX_UNIT_LEVELS, MAX_UNIT = 5, 200
MAX_EVENTS_A_REQUEST = 100
# The longest path in data.
MAX_PATH = 200
EVENT_ID_PATTERN = r"^[!-~]{1,128}$"
EVENT_TYPE_PATTERN = r"^[a-z0-9_]+(\.[a-z0-9_]+){0,7}$"
_LEVEL = r"[A-Za-z0-9_.-]{1,64}"
UNIT_PATTERN = rf"^{_LEVEL}(/{_LEVEL}){{0,{MAX_UNIT_LEVELS - 1}}}$"
# The first parts of the types of masscomm's own events.
OWN_TYPES = ("send", "notification", "webhook", "device")

_EVENT_ID, _EVENT_TYPE, _UNIT = map(re.compile, (EVENT_ID_PATTERN, EVENT_TYPE_PATTERN, UNIT_PATTERN))


@dataclass(frozen=True, kw_only=True)
class EventType:
    """A type of events, which an operator describes. Its name is that of `EventOccurred.type`."""

    name: str
    description: str
    # An example of the data of an event.
    example: Mapping[str, Any] = field(default_factory=dict)
    # A JSON Schema for the data of events, as JSON; None: data is any JSON object.
    schema: str | None = None
    # The path in data of the id of the user whom the event concerns, such as `player.id`; None: data names no person.
    user_path: str | None = None


def is_event_id(text: str) -> bool:
    """Return whether a text can be the id of an event."""
    return _EVENT_ID.fullmatch(text) is not None


def is_event_type(name: object) -> bool:
    """Return whether a value can be the name of an event type, such as `match.finished`."""
    return isinstance(name, str) and len(name) <= MAX_EVENT_TYPE and _EVENT_TYPE.fullmatch(name) is not None


def is_own_type(name: str) -> bool:
    """Return whether a type is reserved for masscomm's own events."""
    return name.partition(".")[0] in OWN_TYPES


def is_unit(path: object) -> bool:
    """Return whether a value is the path of a unit: up to five levels, such as `100/7`."""
    if not isinstance(path, str) or len(path) > MAX_UNIT or _UNIT.fullmatch(path) is None:
        return False
    return not any(level in (".", "..") for level in path.split("/"))


@lru_cache(maxsize=10_000)
def patterns_of(event_type: str) -> tuple[str, ...]:
    """Return the patterns of subscriptions that include a type: `a.b` → ("a.b", "a.*", "*")."""
    parts = event_type.split(".")
    return (event_type, *(f"{'.'.join(parts[:count])}.*" for count in range(len(parts) - 1, 0, -1)), "*")


def is_pattern(text: object) -> bool:
    """Return whether a value names event types: a type, a prefix of whole parts such as `match.*`, or `*`."""
    return isinstance(text, str) and (text == "*" or is_event_type(text.removesuffix(".*")))


def units_above(unit: str) -> Iterator[str]:
    """Yield the units whose subscriptions include a unit: `100/7` → `100`, `100/7`."""
    end = unit.find("/")
    while end >= 0:
        yield unit[:end]
        end = unit.find("/", end + 1)
    yield unit


def faults(event: EventOccurred) -> Iterator[tuple[str, CodedText]]:
    """Yield each field of an event that is invalid, with its problem. The data must be a JSON object already."""
    if not _EVENT_ID.fullmatch(event.event_id):
        yield "event_id", Text.EVENT_ID_FORM.filled(maximum=MAX_EVENT_ID)
    if not is_event_type(event.type):
        yield "type", Text.EVENT_TYPE_FORM.filled()
    if not 1 <= event.club_id <= LARGEST_ID:
        yield "club_id", Text.MUST_BE_CLUB.filled()
    if event.unit is not None and not is_unit(event.unit):  # guard: events.unit_is_a_path
        yield "unit", Text.UNIT_FORM.filled(levels=MAX_UNIT_LEVELS)
    if problem := unit_problem("occurred_at", event.occurred_at):  # guard: events.unit_of_time
        yield "occurred_at", Text.TIME_UNIT_WRONG.filled(problem=problem)
    if event.key is not None and not 1 <= len(event.key) <= MAX_EVENT_ID:
        yield "key", Text.EVENT_KEY_FORM.filled(maximum=MAX_EVENT_ID)
    if (size := len(event.data.encode())) > MAX_EVENT_DATA_BYTES:  # guard: events.size_of_data
        yield "data", Text.EVENT_DATA_TOO_LARGE.filled(size=size, maximum=MAX_EVENT_DATA_BYTES)


def value_at(data: Any, path: str) -> Any:
    """Return the value at a path of names, such as `player.id`; None if data has none."""
    for name in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = data.get(name)
    return data


def is_path(value: object) -> bool:
    """Return whether a value is a path in data: names with dots between them, such as `player.id`."""
    return isinstance(value, str) and 0 < len(value) <= MAX_PATH and all(value.split("."))


def with_fields(data: str, paths: Collection[str]) -> str:
    """Return the JSON text of data with the values at these paths; without paths, data as it is. A path that data lacks
    is left out.
    """
    if not paths:
        return data
    found: dict[str, Any] = {}
    document = json.loads(data)
    for path in paths:
        above, _, last = path.rpartition(".")
        source, target = value_at(document, above) if above else document, found
        if not isinstance(source, Mapping) or last not in source:
            continue
        for name in above.split(".") if above else ():
            target = target.setdefault(name, {})
        target[last] = source[last]
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def webhook_body(
    event: EventOccurred, endpoint_id: str, timestamp: str, body_format: BodyFormat = BodyFormat.MASSCOMM
) -> str:
    """Return the body of the webhook with an event for one endpoint.

    Args:
        event: The event, whose data is written as it is.
        endpoint_id: The endpoint, from which the message's id is derived.
        timestamp: The time of the event in RFC 3339.
        body_format: The form that the endpoint wants.
    """
    if body_format is BodyFormat.CLOUD_EVENTS:
        return cloud_event(event, timestamp)
    head: dict[str, Any] = {
        "id": event_message_id(event.club_id, event.event_id, endpoint_id),
        "type": event.type,
        "api_version": API_VERSION,
        "timestamp": timestamp,
        "event_id": event.event_id,
        "club_id": event.club_id,
        "unit": event.unit,
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False)
    return f'{text[:-1]},"data":{event.data}}}'
