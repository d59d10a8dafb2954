"""Maps a document of another system to an occurred event.

    type: {value: order.paid}
    club_id: {path: shop.tenant}
    occurred_at: {path: created, unit: s}
    event_id: {path: id}
    data: {path: data.object}

Each field has either a constant `value` or the `path` of its value: names in the document with dots between them, or
`headers.` and the name of a header in lower case.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from masscomm.domain.events import (
    MAX_EVENT_ID,
    MAX_UNIT_LEVELS,
    OWN_TYPES,
    faults,
    is_event_type,
    is_own_type,
    is_path,
    is_unit,
    value_at,
)
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.records import EventOccurred
from masscomm.domain.times import parse_rfc3339
from masscomm.integers import integer_or
from masscomm.texts import CodedText, Text

FIELDS = ("type", "club_id", "unit", "key", "occurred_at", "event_id", "data")
_REQUIRED = ("type", "club_id")
# Each event has its own value of these, so that they cannot be constant.
_PATH_ONLY = ("occurred_at", "event_id")
# An event without a value at the path of one of these has None.
_OPTIONAL = ("unit", "key")
_HEADERS = "headers."


class TimeUnit(StrEnum):
    """The form of a time in a document."""

    MS = "ms"
    S = "s"
    # RFC 3339, with an offset from UTC.
    ISO8601 = "iso8601"


@dataclass(frozen=True, kw_only=True, slots=True)
class MappedField:
    """The origin of one field of an event."""

    # A constant of the type that the field has in EventOccurred; None if there is a path.
    value: Any = None
    path: str | None = None
    # The unit of `occurred_at`.
    unit: TimeUnit | None = None


class InvalidMapping(ValueError):
    """A mapping cannot be used. `problems` has each of its fields that is invalid ("" for the whole), and why."""

    def __init__(self, problems: list[tuple[str, CodedText]]) -> None:
        super().__init__("; ".join(f"{field or 'mapping'} {problem}" for field, problem in problems))
        self.problems = problems


class Unmapped(ValueError):
    """A document has no event that the mapping finds.

    Args:
        field: The field of the event.
        problem: Its problem, with the path.
    """

    def __init__(self, field: str, problem: CodedText) -> None:
        super().__init__(f"{field} {problem}")
        self.field, self.problem = field, problem


@dataclass(frozen=True, kw_only=True)
class EventMapping:
    """Says which value of a document is which field of an event."""

    fields: Mapping[str, MappedField]

    @classmethod
    def of(cls, document: Any) -> "EventMapping":
        """Return the mapping in a document of JSON or YAML, {field: {"value": …} or {"path": …}}. Raises
        InvalidMapping.
        """
        if not isinstance(document, Mapping):
            raise InvalidMapping([("", Text.MAPPING_FORM.filled())])
        problems = [(str(name)[:100], Text.FIELD_UNKNOWN.filled()) for name in document if name not in FIELDS]
        problems += [(name, Text.MISSING.filled()) for name in _REQUIRED if document.get(name) is None]
        fields: dict[str, MappedField] = {}
        for name in FIELDS:
            if (given := document.get(name)) is None:
                continue
            if (problem := _problem(name, given)) is not None:
                problems.append((name, problem))
                continue
            unit = TimeUnit(given["unit"]) if "unit" in given else None
            fields[name] = MappedField(value=given.get("value"), path=given.get("path"), unit=unit)
        if problems:
            raise InvalidMapping(problems)
        return cls(fields=fields)

    def event(
        self, document: Any, headers: Mapping[str, str], *, default_event_id: str, default_occurred_at: int
    ) -> EventOccurred:
        """Return the event in a document.

        Args:
            document: The document as it was parsed from JSON or Avro. It is `data`, if the mapping has none.
            headers: The headers by their names in lower case.
            default_event_id: The id of the event, if the mapping has none.
            default_occurred_at: The time of the event in ms since the epoch, if the mapping has none.

        Raises:
            Unmapped: A path has no value, or a value that its field cannot have.
        """
        found: dict[str, Any] = {"event_id": default_event_id, "occurred_at": default_occurred_at, "data": document}
        found |= {name: self._value(name, field, document, headers) for name, field in self.fields.items()}
        if not isinstance(found["data"], dict):
            raise Unmapped("data", self._at("data", Text.MUST_BE_JSON_OBJECT.filled()))
        try:
            found["data"] = json.dumps(found["data"], separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError) as error:
            # Avro has NaN, bytes and times.
            raise Unmapped("data", self._at("data", Text.MUST_BE_JSON_OBJECT.filled())) from error
        event = EventOccurred(**found)
        for name, problem in self._faults(event):
            raise Unmapped(name, self._at(name, problem))
        return event

    def _faults(self, event: EventOccurred) -> Iterator[tuple[str, CodedText]]:
        yield from faults(event)
        if is_own_type(event.type):  # guard: event_mapping.own_type
            yield "type", _reserved()

    def _value(self, name: str, field: MappedField, document: Any, headers: Mapping[str, str]) -> Any:
        if field.path is None:
            return field.value
        if field.path.startswith(_HEADERS):
            value = headers.get(field.path.removeprefix(_HEADERS))
        else:
            value = value_at(document, field.path)
        if value is None and name in _OPTIONAL:
            return None
        if value is None:
            raise Unmapped(name, self._at(name, Text.MISSING.filled()))
        found, problem = _converted(name, value, field.unit)
        if problem is not None:
            raise Unmapped(name, self._at(name, problem))
        return found

    def _at(self, name: str, problem: CodedText) -> CodedText:
        """Return a problem with the path of its field."""
        field = self.fields.get(name)
        path = field.path if field is not None and field.path is not None else "value" if field else "the document"
        return Text.MAPPED_FIELD_UNUSABLE.filled(path=path, problem=problem)


def _problem(name: str, given: Any) -> CodedText | None:
    """Return why a field of a mapping cannot be used; None if it can."""
    allowed = {"value", "path", "unit"} if name == "occurred_at" else {"value", "path"}
    if not isinstance(given, Mapping) or not given.keys() <= allowed or ("value" in given) == ("path" in given):
        return Text.MAPPED_FIELD_FORM.filled()
    if name == "occurred_at" and given.get("unit") not in list(TimeUnit):
        return Text.MAPPED_TIME_UNIT.filled(units=", ".join(TimeUnit))
    if "path" in given:
        path = given["path"]
        is_usable = is_path(path) and (not path.startswith(_HEADERS) or path == path.lower())
        return None if is_usable else Text.MAPPED_FIELD_FORM.filled()
    if name in _PATH_ONLY:
        return Text.MAPPED_PATH_NEEDED.filled()
    return _constant_problem(name, given["value"])


def _constant_problem(name: str, value: Any) -> CodedText | None:
    """Return why a constant cannot be a field of an event; None if it can."""
    match name:
        case "type" if not is_event_type(value):
            return Text.EVENT_TYPE_FORM.filled()
        case "type" if is_own_type(value):
            return _reserved()
        case "club_id" if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_ID:
            return Text.MUST_BE_CLUB.filled()
        case "unit" if not is_unit(value):
            return Text.UNIT_FORM.filled(levels=MAX_UNIT_LEVELS)
        case "key" if not isinstance(value, str) or not 1 <= len(value) <= MAX_EVENT_ID:
            return Text.EVENT_KEY_FORM.filled(maximum=MAX_EVENT_ID)
        case "data" if not isinstance(value, dict):
            return Text.MUST_BE_JSON_OBJECT.filled()
    return None


def _converted(name: str, value: Any, unit: TimeUnit | None) -> tuple[Any, CodedText | None]:
    """Return the value of a field in the form that it has in an event, and why that is impossible."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    match name:
        case "data":
            return value, None
        case "occurred_at":
            return _moment(value, unit)
        case "club_id":
            # Headers and the metadata of payments have numbers as texts.
            club_id = value if is_integer else integer_or(value, None) if isinstance(value, str) else None
            return club_id, Text.MUST_BE_CLUB.filled() if club_id is None else None
    # Other systems number their units, orders and events.
    text = str(value) if is_integer else value
    return text, None if isinstance(text, str) else Text.TYPE_TEXT.filled()


def _moment(value: Any, unit: TimeUnit | None) -> tuple[int, CodedText | None]:
    """Return a time in ms since the epoch, and why the value is none."""
    if unit is TimeUnit.ISO8601:
        try:
            return round(parse_rfc3339(value).timestamp() * 1000), None
        except (ValueError, TypeError):
            return 0, Text.MUST_BE.filled(form=Text.FORM_TIME.filled())
    number = integer_or(value, None) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        return 0, Text.TYPE_NUMBER.filled()
    moment_ms = number * 1000 if unit is TimeUnit.S else number
    return (round(moment_ms), None) if math.isfinite(moment_ms) else (0, Text.NOT_A_DOUBLE.filled())


def _reserved() -> CodedText:
    return Text.EVENT_TYPE_RESERVED.filled(reserved=", ".join(OWN_TYPES))
