"""Checks the data of events against the JSON Schemas of their types, by a compiled library (jsonschema-rs).

A schema is data of a caller: patterns are matched in linear time, and references to other documents are refused, so
that a schema opens no connection, and its patterns do not occupy the processor.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from masscomm.clock import Clock
from masscomm.domain.events import EventType
from masscomm.domain.time_limits import EVENT_TYPES_CACHED_S
from masscomm.stores.event_types.port import EventTypes

if TYPE_CHECKING:
    import jsonschema_rs

MAX_SCHEMA_BYTES = 20_000
# The size limit of a compiled pattern in bytes.
_PATTERN_BYTES = 1_000_000
_LONGEST_REASON = 300


class UnusableSchema(Exception):
    """The text is not a JSON Schema that can be used. The message is a short reason."""


@dataclass(frozen=True)
class Misfit:
    """Why data does not fit a schema."""

    # The place in data, such as `player.id`; "data" for the whole.
    place: str
    reason: str


@lru_cache(maxsize=1_000)
def compiled(schema: str) -> "jsonschema_rs.Validator":
    """Return the validator of a JSON Schema (2020-12 unless it names an earlier draft). Raises UnusableSchema."""
    import jsonschema_rs

    if len(schema.encode()) > MAX_SCHEMA_BYTES:
        raise UnusableSchema(f"it has more than {MAX_SCHEMA_BYTES} bytes")
    try:
        return jsonschema_rs.validator_for(
            json.loads(schema),
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES),  # guard: events.linear_patterns
            mask="the value",
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise UnusableSchema(str(error).partition("\n")[0][:_LONGEST_REASON]) from error


def misfit(schema: str | None, data: Any) -> Misfit | None:
    """Return why data does not fit a schema; None if it does. The reason has no value of the data. Raises
    UnusableSchema.
    """
    if schema is None:
        return None
    error = next(compiled(schema).iter_errors(data), None)
    if error is None:
        return None
    place = ".".join(str(each) for each in error.instance_path) or "data"
    return Misfit(place[:_LONGEST_REASON], error.message[:_LONGEST_REASON])


@dataclass(frozen=True, kw_only=True)
class KnownTypes:
    """The event types that a function uses, read again after EVENT_TYPES_CACHED_S; unknown ones are read each time."""

    store: EventTypes
    clock: Clock
    # Name → the type, and the time until which it is used.
    _known: dict[str, tuple[EventType, float]] = field(default_factory=dict)

    def find(self, names: Iterable[str]) -> Mapping[str, EventType]:
        """Return the event types that exist, by their names. Raises Retry or Stop."""
        now = self.clock.monotonic()
        wanted = set(names)
        unread = [name for name in wanted if name not in self._known or self._known[name][1] <= now]
        if unread:
            found = self.store.find(sorted(unread))
            for name in unread:
                self._known.pop(name, None)
            self._known.update({name: (each, now + EVENT_TYPES_CACHED_S) for name, each in found.items()})
        return {name: self._known[name][0] for name in wanted if name in self._known}
