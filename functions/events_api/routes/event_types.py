"""The types of events, which are data: each has a description, an example and optionally a JSON Schema. Those of
masscomm's own events cannot be changed.

GET /v1/event-types                        all types
GET, PUT, DELETE /v1/event-types/{name}    read, store and delete one
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from masscomm.domain.audit import Action
from masscomm.domain.events import OWN_TYPES, EventType, is_event_type, is_own_type
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.event_types.checks import UnusableSchema, misfit
from masscomm.stores.event_types.port import EventTypes
from masscomm.texts import Text

MAX_DESCRIPTION = 1_000
MAX_USER_PATH = 200
MAX_EXAMPLE_BYTES = 20_000


class EventTypeFields(TypedDict):
    """The body of a request to PUT /v1/event-types/{name}."""

    description: str
    example: dict[str, Any]
    """The data of an event of this type."""
    schema: NotRequired[dict[str, Any] | None]
    """A JSON Schema for data, without references to other documents; null: data is any JSON object."""
    user_path: NotRequired[str | None]
    """The path in data of the id of the user whom the event concerns, such as player.id."""


class EventTypeBody(TypedDict):
    """A type of events."""

    name: str
    description: str
    example: dict[str, Any]
    schema: dict[str, Any] | None
    user_path: str | None


class EventTypesBody(TypedDict):
    """All types of events, in the order of their names."""

    rows: list[EventTypeBody]


class DeletedEventTypeBody(TypedDict):
    """A deleted type."""

    name: str
    status: Literal["deleted"]


@dataclass(frozen=True, kw_only=True)
class EventTypesRoute:
    store: EventTypes

    def every(self, parameters: Mapping[str, list[str]]) -> EventTypesBody:
        """Return all types. Raises Problem with status 400 for any parameter, or Retry."""
        Reader(parameters).check()
        rows = sorted([*OWN_EVENTS.values(), *self.store.every()], key=lambda each: each.name)
        return {"rows": [_body(each) for each in rows]}

    def show(self, name: str, parameters: Mapping[str, list[str]]) -> EventTypeBody:
        """Return a type. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        return _body(self._known(name))

    def put(self, name: str, content: str | None, clubs: Clubs, audit: Audit) -> EventTypeBody:
        """Store a type, and return it. Raises Problem (400, 403) or Retry."""
        _check_operator(clubs)
        event_type = _read(name, content)
        is_new = self.store.put(event_type)
        audit(Action.EVENT_TYPE_STORED, subject=name, clubs=[], detail="created" if is_new else "changed")
        return _body(event_type)

    def delete(self, name: str, clubs: Clubs, audit: Audit) -> DeletedEventTypeBody:
        """Delete a type. Raises Problem (403, 404) or Retry."""
        _check_operator(clubs)
        if not is_event_type(name) or not self.store.delete(name):
            raise Problem(404, Text.EVENT_TYPE_UNKNOWN.filled())
        audit(Action.EVENT_TYPE_DELETED, subject=name, clubs=[])
        return {"name": name, "status": "deleted"}

    def _known(self, name: str) -> EventType:
        if (own := OWN_EVENTS.get(name)) is not None:
            return own
        found = self.store.find([name]) if is_event_type(name) else {}
        if name not in found:
            raise Problem(404, Text.EVENT_TYPE_UNKNOWN.filled())
        return found[name]


def _check_operator(clubs: Clubs) -> None:
    """Types belong to the installation: a change concerns the events of every club."""
    if not clubs.every:  # guard: tenancy.event_types
        raise Problem(403, Text.EVERY_CLUB_NEEDED.filled())


def _read(name: str, content: str | None) -> EventType:
    """Return the type in a request. Raises Problem with status 400."""
    fields = read_object(content)
    errors = undefined_fields(fields, EventTypeFields)
    if not is_event_type(name):
        errors.append(FieldError("event_type", Text.EVENT_TYPE_FORM.filled()))
    elif is_own_type(name):
        errors.append(FieldError("event_type", Text.EVENT_TYPE_RESERVED.filled(reserved=", ".join(OWN_TYPES))))
    description, example, schema = fields.get("description"), fields.get("example"), fields.get("schema")
    if not isinstance(description, str) or not 1 <= len(description) <= MAX_DESCRIPTION:
        errors.append(FieldError("description", Text.MUST_BE_TEXT.filled(maximum=MAX_DESCRIPTION)))
    if not isinstance(example, dict):
        errors.append(FieldError("example", Text.MUST_BE_JSON_OBJECT.filled()))
    elif (size := len(json.dumps(example).encode())) > MAX_EXAMPLE_BYTES:
        errors.append(FieldError("example", Text.EVENT_DATA_TOO_LARGE.filled(size=size, maximum=MAX_EXAMPLE_BYTES)))
    user_path = fields.get("user_path")
    if user_path is not None and (not isinstance(user_path, str) or not 1 <= len(user_path) <= MAX_USER_PATH):
        errors.append(FieldError("user_path", Text.MUST_BE_TEXT.filled(maximum=MAX_USER_PATH)))
    if schema is not None and not isinstance(schema, dict):
        errors.append(FieldError("schema", Text.MUST_BE_JSON_OBJECT.filled()))
    if errors:
        raise unusable(errors)
    text = None if schema is None else json.dumps(schema, ensure_ascii=False)
    try:
        found = misfit(text, example)
    except UnusableSchema as error:
        raise unusable([FieldError("schema", Text.SCHEMA_UNUSABLE.filled(reason=str(error)))]) from error
    if found is not None:
        problem = Text.EXAMPLE_MISFIT.filled(place=found.place, reason=found.reason)
        # The fault may be in either.
        raise unusable([FieldError(field, problem) for field in ("example", "schema")])
    return EventType(name=name, description=description or "", example=example or {}, schema=text, user_path=user_path)


def _body(event_type: EventType) -> EventTypeBody:
    return {
        "name": event_type.name,
        "description": event_type.description,
        "example": dict(event_type.example),
        "schema": None if event_type.schema is None else json.loads(event_type.schema),
        "user_path": event_type.user_path,
    }
