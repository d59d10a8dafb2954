"""POST /v1/events: up to 100 occurred events, for the endpoints that subscribe to them.

By its content type a request has events, a CloudEvent or a batch of CloudEvents.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NotRequired, TypedDict

from masscomm.chain.produce_events import produce_events
from masscomm.clock import Clock
from masscomm.domain import cloud_events
from masscomm.domain.events import MAX_EVENTS_A_REQUEST, EventType, faults
from masscomm.domain.records import EventOccurred
from masscomm.errors import Retry
from masscomm.http import parameters as parse
from masscomm.http.body import read_fields, read_object, undefined_fields
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.event_types.checks import KnownTypes, misfit
from masscomm.texts import CodedText, Text

# The errors that a problem lists.
_LISTED = 100

# The problems of fields, by their names; "" stands for the whole event.
type Wrong = list[tuple[str, CodedText]]


class EventFields(TypedDict):
    """An event that occurred."""

    event_id: str
    """The id of the event in its club. A repeated event of the last 24 hours is not produced again."""
    type: str
    """The event type, such as match.finished."""
    club_id: int
    data: dict[str, Any]
    """At most 64 kB."""
    unit: NotRequired[str | None]
    """The path of the unit, at most 5 levels, such as 100/7."""
    key: NotRequired[str | None]
    """What the event is about, such as the id of an order."""
    occurred_at: NotRequired[str]
    """The time of the event; by default now."""


class EventsRequest(TypedDict):
    """The body of a request to POST /v1/events."""

    events: list[EventFields]


class AcceptedEvent(TypedDict):
    event_id: str
    club_id: int
    status: Literal["accepted", "repeated"]
    """`repeated`: the same event was accepted in the last 24 hours, and is not produced again."""


class AcceptedEvents(TypedDict):
    """The events of a request, in its order. Kafka has each of them."""

    events: list[AcceptedEvent]


@dataclass(frozen=True)
class _Given:
    """An event of a request, and the digest of its fields."""

    event: EventOccurred
    digest: str
    data: Any

    @property
    def key(self) -> EventKey:
        return EventKey(self.event.club_id, self.event.event_id)


@dataclass(frozen=True)
class _Form:
    """The form of the events in a request: that of EventsRequest, or CloudEvents."""

    # The place of the first event, … in the body; "" if the body is one.
    place: str
    is_cloud_event: bool

    @property
    def club_field(self) -> str:
        """Return the field of the error of a club that the caller may not see."""
        if self.is_cloud_event:
            return cloud_events.ATTRIBUTES["club_id"]
        return "events" if self.place else "club_id"

    def error(self, number: int, field: str, message: CodedText) -> FieldError:
        """Return the error of a field of an event, under the name that the caller wrote."""
        name = cloud_events.ATTRIBUTES.get(field, field) if self.is_cloud_event else field
        place = self.place.format(number=number)
        return FieldError(f"{place}.{name}" if place and name else place or name, message)


_EVENTS, _CLOUD_EVENT = _Form("events[{number}]", False), _Form("", True)
_CLOUD_EVENTS, _EVENT = _Form("[{number}]", True), _Form("", False)


@dataclass(frozen=True, kw_only=True)
class EventsRoute:
    types: KnownTypes
    event_ids: EventIds
    codec: Codec
    producer: Producer
    clock: Clock

    def answer(self, content: str | None, content_type: str | None, clubs: Clubs) -> AcceptedEvents:
        """Produce the events of a request.

        Raises:
            Problem: 400 with each invalid field, 403 for a club that the caller may not see, 422 for an event_id of
                another event.
            Retry: A dependency is down. The request may be repeated: an event that Kafka has is not produced again.
        """
        form, given = self._read(content, content_type, clubs)
        digests = dict(self.event_ids.known({each.key for each in given}, self._now_s()))
        known = set(digests)
        errors: list[FieldError] = []
        for number, each in enumerate(given):
            # guard: events.other_event_of_an_id
            if digests.setdefault(each.key, each.digest) != each.digest:
                errors.append(form.error(number, "event_id", Text.EVENT_ID_OF_OTHER.filled()))
        if errors:
            raise Problem(422, Text.FIELDS_INVALID.filled(fields=errors[0].field), errors=errors[:_LISTED])
        new = {each.key: each for each in given if each.key not in known}
        self._produce(new)
        rows: list[AcceptedEvent] = []
        for each in given:
            is_new = new.pop(each.key, None) is not None
            rows.append(
                {
                    "event_id": each.event.event_id,
                    "club_id": each.event.club_id,
                    "status": "accepted" if is_new else "repeated",
                }
            )
        return {"events": rows}

    def checked(self, content: str | None, clubs: Clubs) -> EventOccurred:
        """Return the event in a body, which is neither produced nor recorded. Raises Problem (400, 403) or Retry."""
        (given,) = self._given(_EVENT, [read_object(content)], [], clubs)
        return given.event

    def _produce(self, new: Mapping[EventKey, _Given]) -> None:
        """Produce events, and record those that Kafka has acknowledged. Raises Retry."""
        errors = produce_events((each.event for each in new.values()), self.codec, self.producer)
        # guard: events.recorded_after_kafka
        acknowledged = {key: each.digest for key, each in new.items() if errors[key] is None}
        if acknowledged:
            self.event_ids.record(acknowledged, self._now_s())
        for error in errors.values():
            if error is not None:
                raise Retry(f"Kafka has not taken each event: {error}") from error

    def _now_s(self) -> int:
        return self.clock.now_ms() // 1000

    def _read(self, content: str | None, content_type: str | None, clubs: Clubs) -> tuple[_Form, list[_Given]]:
        """Return the form and the events of a body. Raises Problem with status 400 or 403."""
        form, events, errors = _events_in(content, content_type)
        return form, self._given(form, events, errors, clubs)

    def _given(self, form: _Form, events: Sequence[Any], errors: list[FieldError], clubs: Clubs) -> list[_Given]:
        """Return events that fit their types. Raises Problem with status 400 or 403."""
        given: list[_Given] = []
        for number, fields in enumerate(events):
            found, wrong = self._cloud_event(fields) if form.is_cloud_event else self._event(fields)
            errors += [form.error(number, name, message) for name, message in wrong]
            if found is not None:
                given.append(found)
        if errors:
            raise unusable(errors[:_LISTED])
        # guard: tenancy.reported_events
        if others := sorted({each.event.club_id for each in given if each.event.club_id not in clubs}):
            message = Text.CLUBS_NOT_SEEN.filled(clubs=", ".join(map(str, others[:_LISTED])))
            raise Problem(403, Text.EVENTS_NOT_PERMITTED.filled(), errors=[FieldError(form.club_field, message)])
        self._check_types(given, form)
        return given

    def _cloud_event(self, attributes: Any) -> tuple[_Given | None, Wrong]:
        """Return the event in a CloudEvent, and the problems of its attributes by the names of fields."""
        if not isinstance(attributes, dict):
            return None, [("", Text.MUST_BE_OBJECT.filled())]
        present = cloud_events.present(attributes)
        wrong = [(name[:100], problem) for name, problem in cloud_events.problems_of(present)]
        return (None, wrong) if wrong else self._event(cloud_events.fields_of(present))

    def _event(self, fields: Any) -> tuple[_Given | None, Wrong]:
        """Return an event, and the problems of its fields by their names."""
        if not isinstance(fields, dict):
            return None, [("", Text.MUST_BE_OBJECT.filled())]
        names = EventFields.__required_keys__ | EventFields.__optional_keys__
        wrong = [(str(name)[:100], Text.FIELD_UNKNOWN.filled()) for name in fields.keys() - names]
        wrong += [(name, Text.MISSING.filled()) for name in sorted(EventFields.__required_keys__ - fields.keys())]
        optional = {name: fields[name] for name in ("unit", "key") if fields.get(name) is not None}
        texts = optional | {name: fields[name] for name in ("event_id", "type") if name in fields}
        wrong += [(name, Text.TYPE_TEXT.filled()) for name, value in texts.items() if not isinstance(value, str)]
        club_id = fields.get("club_id")
        if "club_id" in fields and (not isinstance(club_id, int) or isinstance(club_id, bool)):
            wrong.append(("club_id", Text.MUST_BE_CLUB.filled()))
        data = fields.get("data")
        if "data" in fields and not isinstance(data, dict):
            wrong.append(("data", Text.MUST_BE_JSON_OBJECT.filled()))
        at_ms = self.clock.now_ms()
        if "occurred_at" in fields:
            try:
                at_ms = round(parse.time(fields["occurred_at"]).timestamp() * 1000)
            except (ValueError, TypeError):
                wrong.append(("occurred_at", Text.MUST_BE.filled(form=parse.time.form)))
        if wrong:
            return None, wrong
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        event = EventOccurred(
            event_id=fields["event_id"],
            type=fields["type"],
            club_id=fields["club_id"],
            unit=fields.get("unit"),
            key=fields.get("key"),
            occurred_at=at_ms,
            data=text,
        )
        found = list(faults(event))
        # The default of occurred_at differs in a repeated request, and is not part of the digest.
        identity = json.dumps(fields, sort_keys=True).encode()
        return (None if found else _Given(event, sha256(identity).hexdigest(), data)), found

    def _check_types(self, given: list[_Given], form: _Form) -> None:
        """Check each event against its type. Raises Problem with status 400."""
        types: Mapping[str, EventType] = self.types.find(each.event.type for each in given)
        errors: list[FieldError] = []
        for number, each in enumerate(given):
            event_type = types.get(each.event.type)
            if event_type is None:
                errors.append(form.error(number, "type", Text.EVENT_TYPE_OF_EVENT_UNKNOWN.filled(type=each.event.type)))
            elif (found := misfit(event_type.schema, each.data)) is not None:
                reason = Text.EVENT_DATA_MISFIT.filled(place=found.place, reason=found.reason)
                errors.append(form.error(number, "data", reason))
        if errors:
            raise unusable(errors[:_LISTED])


def _events_in(content: str | None, content_type: str | None) -> tuple[_Form, Sequence[Any], list[FieldError]]:
    """Return the form of a body, its events, and the errors of its other fields. Raises Problem with status 400."""
    match (content_type or "").partition(";")[0].strip().lower():
        case cloud_events.CONTENT_TYPE:
            return _CLOUD_EVENT, [read_object(content)], []
        case cloud_events.BATCH_CONTENT_TYPE:
            return _CLOUD_EVENTS, _checked(read_fields(content), "", ()), []
    document = read_object(content)
    errors = undefined_fields(document, EventsRequest)
    return _EVENTS, _checked(document.get("events"), "events", errors), errors


def _checked(events: Any, field: str, errors: Iterable[FieldError]) -> Sequence[Any]:
    """Return the events in a field of a request. Raises Problem with status 400 if it is no list of them."""
    if not isinstance(events, list) or not 1 <= len(events) <= MAX_EVENTS_A_REQUEST:
        raise unusable([*errors, FieldError(field, Text.EVENTS_LIST.filled(maximum=MAX_EVENTS_A_REQUEST))])
    return events
