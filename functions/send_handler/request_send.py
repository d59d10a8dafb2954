"""Accepts a send over REST: it validates each field, and returns 202 only after the send is on its topic."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict
from uuid import uuid4

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from functions.send_handler.accepted_sends import AcceptedSends
from masscomm.chain.chunks import SMALL_SEND
from masscomm.clock import Clock
from masscomm.domain.audit import Action, Result, audit_entry
from masscomm.domain.categories import category, resolve_channels
from masscomm.domain.channels import CHANNELS
from masscomm.domain.ids import chunk_id
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import (
    CHUNK_RECIPIENT_DATA_BYTES,
    CHUNK_SIZE,
    FIELDS_OF_SEND,
    MAX_RECIPIENT_DATA,
    MAX_REQUEST_AHEAD_MS,
    REQUEST_RECIPIENT_DATA_BYTES,
)
from masscomm.domain.local_times import first_ms, last_ms, parse_local_time
from masscomm.domain.records import AudienceRequested, ContentFields, SendRequested
from masscomm.domain.simulator import AUDIENCE as SIMULATORS
from masscomm.domain.simulator import FIRST_ID, LAST_ID, is_simulated
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import SEND_FLUSH_S
from masscomm.errors import DeadLetter
from masscomm.http.audiences import audience_of
from masscomm.http.body import read_object
from masscomm.http.problem import FieldError, FieldErrorBody, Problem, invalid
from masscomm.http.rest import JSON, Links, Request
from masscomm.http.scopes import Scope
from masscomm.http.tenant import Clubs
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Headers, Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import RECIPIENTS
from masscomm.stores.audit_log import AuditLog, record_or_log
from masscomm.stores.send_controls import AcceptedSend, SendKey

logger = logs.logger("send_handler")

_LONGEST_PATH = 200
# The errors in a response for one field; the names of unknown fields count as one field.
_ERRORS_A_FIELD = 10
_TIMES = ("expires_at", "send_at")
_DAYS_AHEAD = MAX_REQUEST_AHEAD_MS // 86_400_000
_LITERAL = {"title", "body"}
# In a record, the position of each recipient is added, with at most four digits.
_CHUNK_BYTES = CHUNK_RECIPIENT_DATA_BYTES - 4 * CHUNK_SIZE
# The type of the error of variables for a user that is no recipient.
_OTHERS = "no_recipient"


def _number(name: str) -> Any:
    """Return the bounds of a numeric field of a send, or of each number in a list."""
    return Field(ge=1, le=FIELDS_OF_SEND[name].highest)


def _text(name: str) -> Any:
    """Return the bounds of a text field of a send; the text must not be empty."""
    limit = FIELDS_OF_SEND[name]
    return Field(pattern=limit.pattern, min_length=None if limit.pattern else 1, max_length=limit.characters)


def _entries(name: str, **also: Any) -> Any:
    """Return the bounds of a list or map field of a send."""
    return Field(max_length=FIELDS_OF_SEND[name].entries, **also)


_DATA = FIELDS_OF_SEND["data"]


def _written_out(value: object) -> object:
    if value is not None and not (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[Tt ]", value)):
        raise ValueError("an RFC 3339 time with its zone, as a string")
    return value


Time = Annotated[Annotated[AwareDatetime, Field(strict=False)] | None, BeforeValidator(_written_out)]
_TIME: TypeAdapter[datetime | None] = TypeAdapter(Time)


def _local_time(text: str | None) -> str | None:
    if text is not None and parse_local_time(text) is None:
        raise ValueError("a date and time without a zone, such as 2026-11-24T09:00")
    return text


LocalTime = Annotated[Annotated[str, _text("send_at_local")] | None, AfterValidator(_local_time)]


UserId = Annotated[int, _number("to_users")]


def _bytes_of(data: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


def _bounded(data: dict[str, str]) -> dict[str, str]:
    if _bytes_of(data) > _DATA.max_bytes:
        raise ValueError(f"more than {_DATA.max_bytes} bytes in total")
    return data


Variables = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=_DATA.key_characters)], str],
    _entries("data"),
    AfterValidator(_bounded),
]


class ContentRequest(BaseModel):
    """The fields of a request that determine the messages of a send."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Annotated[str, _text("type")]
    club_id: Annotated[int, _number("club_id")]
    channels: Annotated[list[Literal[*tuple(CHANNELS)]], Field(max_length=len(CHANNELS))] = []  # type: ignore[valid-type]
    template: Annotated[str, _text("template")] | None = None
    data: Variables = {}
    locale: Annotated[str, _text("locale")] | None = None

    def content(self) -> ContentFields:
        """Return the fields as in the records of a send. The time of the request is left out."""
        return ContentFields(
            club_id=self.club_id,
            type=self.type,
            timestamp=0,
            template=self.template,
            data=self.data,
            locale=self.locale,
        )

    def template_keys(self) -> list[tuple[int, str, str]]:
        """Return club, type and channel of the templates."""
        channels = resolve_channels(self.type, self.channels, self.club_id)
        return [(self.club_id, self.template or self.type, channel) for channel in channels]


class _NotGiven(list[int]):
    """The default of to_users, which no request can contain."""


class SendRequest(ContentRequest):
    """The body of a request to POST /v1/sends."""

    # The audience is validated before to_users: a send has one of the two. `parse_request` reads its conditions.
    audience: Annotated[
        dict[str, Any] | None,
        Field(description="Users of the club by conditions (docs/audiences.md), instead of to_users."),
    ] = None
    to_users: Annotated[
        list[UserId], _entries("to_users", min_length=1, default_factory=_NotGiven, validate_default=True)
    ]
    recipient_data: Annotated[
        dict[str, Variables],
        Field(
            max_length=MAX_RECIPIENT_DATA,
            description="Variables of single recipients, which replace those of data: user id → name → text.",
        ),
    ] = {}
    priority: Annotated[
        Literal[*FIELDS_OF_SEND["priority"].choices],  # type: ignore[valid-type]
        Field(description="The lane of the send."),
    ] = "bulk"
    expires_at: Time = None
    send_at: Time = None
    send_at_local: LocalTime = None
    collapse_key: Annotated[str, _text("collapse_key")] | None = None
    reference: Annotated[str, _text("reference")] | None = None
    dry_run: Annotated[
        bool, Field(description="Whether nothing is sent, and the response is what would become of the send.")
    ] = False

    @field_validator("recipient_data")
    @classmethod
    def _in_one_request(cls, found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        if sum(map(_bytes_of, found.values())) > REQUEST_RECIPIENT_DATA_BYTES:
            raise ValueError(f"more than {REQUEST_RECIPIENT_DATA_BYTES} bytes in total")
        return found

    @model_validator(mode="after")
    def _of_recipients(self) -> Self:
        if self.recipient_data and (others := self.recipient_data.keys() - set(map(str, self.to_users))):
            raise PydanticCustomError(_OTHERS, "the user {user} is not in to_users", {"user": min(others)})
        return self

    @field_validator("to_users", mode="wrap")
    @classmethod
    def _or_audience(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> list[int]:
        has_audience = info.data.get("audience") is not None
        if isinstance(value, _NotGiven):
            if not has_audience and "audience" in info.data:
                raise PydanticCustomError("missing", "Field required")
            return []
        if has_audience:
            raise PydanticCustomError("both", "must be absent if the send has an audience")
        users: list[int] = validate(value)
        return users

    @property
    def recipients(self) -> int:
        """Return the number of distinct users; 0 if the send has an audience."""
        return len(set(self.to_users))

    @property
    def variable_names(self) -> list[str]:
        """Return the names in the data of the send and of its recipients."""
        return list(dict.fromkeys([*self.data, *(name for own in self.recipient_data.values() for name in own)]))


class AcceptedBody(TypedDict):
    """An accepted send."""

    send_id: str
    status: Literal["accepted", "expanding"]
    """expanding: the users of the audience are sought, so that `requested` is not known yet."""
    requested: int | None
    """Distinct notifications: a user on a channel. Null while an audience is expanded."""
    duplicates: int
    """Repeated users; they are not counted in `requested`."""
    links: Links
    warnings: NotRequired[list[FieldErrorBody]]
    """Content that is not used, and templates that are missing. Absent if there is none."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The counts in the response. `requested` is the number of distinct notifications (a user on a channel),
    `duplicates` the number of repeated users.
    """

    send_id: str
    # None: the audience of the send is not expanded yet.
    requested: int | None
    duplicates: int

    def body(self, warnings: Sequence[FieldError] = ()) -> AcceptedBody:
        body: AcceptedBody = {
            "send_id": self.send_id,
            "status": "expanding" if self.requested is None else "accepted",
            "requested": self.requested,
            "duplicates": self.duplicates,
            "links": {"self": f"/v1/sends/{self.send_id}"},
        }
        if warnings:
            body["warnings"] = [{"field": each.field, "message": each.message} for each in warnings]
        return body


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller of the REST API."""

    # The id of the API key, or another principal that the authorizer set.
    principal: str = ""
    trace: traces.Trace | None = None
    # The limit of the API key; None: it has none.
    recipients_a_day: int | None = None
    # Whether the API key sends to simulator recipients only.
    is_test: bool = False


ANONYMOUS = Caller()


@dataclass(frozen=True, kw_only=True)
class SendIdentity:
    """The parts of a send that stay the same in every attempt to request it, because the ids of its records are
    derived from them.
    """

    send_id: str
    # The time of the send in milliseconds since the epoch.
    requested_at_ms: int
    # The number of recipients in each record of the send.
    chunk_size: int


def check_media_type(content_type: str | None) -> None:
    """Check the Content-Type of a request; it may be absent. Raises Problem with status 415 if it is not JSON."""
    media_type = (content_type or JSON).partition(";")[0].strip().lower()
    if media_type != JSON and not re.fullmatch(r"application/[\w.-]+\+json", media_type):
        raise Problem(415, f"The body must be {JSON}.", errors=[FieldError("Content-Type", f"must be {JSON}")])


def read_document(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request. Raises Problem with status 400 or 415."""
    check_media_type(request.header("content-type"))
    return read_object(request.text(), bounded=False)


def parse_request(document: Any, clock: Clock, model: "type[SendRequest]" = SendRequest) -> SendRequest:
    """Return the request in a JSON value. Raises Problem with status 400 that names each invalid field.

    Times that have passed are errors only if the request has another error: a repeated request with an idempotency key
    may arrive after them.
    """
    try:
        send = model.model_validate(document)
    except ValidationError as error:
        errors = _field_errors(error, model)
        if isinstance(document, Mapping):
            errors += _time_errors(_readable_times(document), document.get("send_at_local"), clock.now_ms())
        raise invalid(errors) from error
    if send.audience is not None and (errors := _audience_errors(send)):
        raise invalid(errors)
    return send


def _audience_errors(send: SendRequest) -> list[FieldError]:
    _, errors = audience_of(send.audience)
    if send.priority == Lane.CRITICAL:
        errors.append(FieldError("priority", "must be bulk for an audience"))
    return errors


def invalid_fields(error: ValidationError, model: type[BaseModel]) -> Problem:
    """Return the problem that names each invalid field of a request."""
    return invalid(_field_errors(error, model))


def check_times(send: SendRequest, now_ms: int) -> None:
    """Check the times of a send. Raises Problem with status 400 if the send has expired, or if its send_at is past, too
    far ahead or not before expires_at.
    """
    times = {"expires_at": _ms(send.expires_at), "send_at": _ms(send.send_at)}
    if errors := _time_errors(times, send.send_at_local, now_ms):
        raise invalid(errors)


def _field_errors(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """Return the errors by field. A field with many errors leaves room for those of other fields."""
    reported: Counter[str] = Counter()
    errors = []
    for entry in error.errors(include_url=False, include_context=False, include_input=False):
        field = str(entry["loc"][0]) if entry["loc"] else "recipient_data" if entry["type"] == _OTHERS else ""
        field = field if field in model.model_fields else ""
        reported[field] += 1
        if reported[field] <= _ERRORS_A_FIELD:
            errors.append(FieldError(_path(entry["loc"]) or field, entry["msg"]))
    return errors


def _readable_times(document: Mapping[str, Any]) -> dict[str, int | None]:
    times: dict[str, int | None] = {}
    for name in _TIMES:
        try:
            times[name] = _ms(_TIME.validate_python(document.get(name)))
        except ValidationError:
            times[name] = None
    return times


def check_tenant(send: ContentRequest, clubs: Clubs) -> None:
    """Check the clubs of the caller. Raises Problem with status 403 if the credentials do not permit sends for the
    club.
    """
    if send.club_id not in clubs:
        message = f"{send.club_id} is none of the clubs of these credentials"
        raise Problem(403, "These credentials may not send for this club.", errors=[FieldError("club_id", message)])


def check_simulated(send: SendRequest) -> None:
    """Check that all recipients of a test key's send are simulator recipients; an audience is replaced by them. Raises
    Problem with status 403 that names the others, at most 20.
    """
    others = [index for index, user_id in enumerate(send.to_users) if not is_simulated(user_id)]
    if others:  # guard: simulator.test_key
        message = f"is no simulator recipient ({FIRST_ID} to {LAST_ID})"
        errors = [FieldError(f"to_users[{index}]", message) for index in others[:20]]
        raise Problem(403, "A test key may send to simulator recipients only.", errors=errors)


def scopes_needed(send: SendRequest) -> list[Scope]:
    """Return the scopes that a request needs in addition to that of its route."""
    needed = [Scope.SEND_CRITICAL] if send.priority == Lane.CRITICAL else []
    # The builder uses the caller's title and body if no template applies.
    if any(
        send.data.keys() | own.keys() >= _LITERAL for own in ({}, *send.recipient_data.values())
    ):  # guard: scopes.own_words
        needed.append(Scope.SEND_MANDATORY if category(send.type).mandatory else Scope.SEND_CONTENT)
    return needed


@dataclass(frozen=True, kw_only=True)
class RequestSend:
    """The use case that produces sends. Each function environment has one instance."""

    codec: Codec
    producer: Producer
    clock: Clock
    audit_log: AuditLog
    accepted_sends: AcceptedSends
    # The number of recipients in each chunk of a new send.
    chunk_size: int = CHUNK_SIZE

    def identify(self, send: SendRequest) -> SendIdentity:
        """Return the identity of a new send. Raises the errors of check_times."""
        identity = self.new_identity()
        check_times(send, identity.requested_at_ms)
        return identity

    def new_identity(self) -> SendIdentity:
        """Return an identity with a new id and the present time."""
        return SendIdentity(send_id=str(uuid4()), requested_at_ms=self.clock.now_ms(), chunk_size=self.chunk_size)

    def produce(self, send: SendRequest, identity: SendIdentity, caller: Caller = ANONYMOUS) -> Accepted:
        """Produce the chunks of a send to send.api, and return when the broker has all of them.

        A repeated call with the same identity produces the same records.

        Raises Problem with status 503 if Kafka did not accept every chunk (the accepted ones are processed) or 413, and
        Retry or Stop from the schema registry.
        """
        logs.note(send_id=identity.send_id)
        with self.audited([send], identity.send_id, caller):
            self.produce_all([(send, identity)], caller)
        accepted = accepted_of(send, identity)
        logger.info("send accepted", requested=accepted.requested)
        return accepted

    @contextmanager
    def audited(self, sends: Sequence[SendRequest], subject: str, caller: Caller) -> Iterator[None]:
        """Record the request of these sends in the audit log of each of their clubs (tenants): failed if this context
        ends with an error, because a part of the sends may be on Kafka.
        """
        try:
            yield
        except Exception:
            self._audit(sends, subject, caller, Result.FAILED)
            raise
        self._audit(sends, subject, caller, Result.OK)

    def _audit(self, sends: Sequence[SendRequest], subject: str, caller: Caller, result: Result) -> None:
        for club_id in {send.club_id: None for send in sends}:
            own = [send for send in sends if send.club_id == club_id]
            what = own[0].type if len(own) == 1 else f"{len(own)} sends"
            entry = audit_entry(
                Action.SEND_REQUESTED,
                club_id=club_id,
                at_ms=self.clock.now_ms(),
                principal=caller.principal,
                subject=subject,
                result=result,
                detail=f"{what}, {sum(send.recipients for send in own)} recipients",
            )
            record_or_log(self.audit_log, entry, logger)  # guard: audit.requested_send

    def produce_all(self, sends: Sequence[tuple[SendRequest, SendIdentity]], caller: Caller = ANONYMOUS) -> None:
        """Produce the chunks of several sends, and return when the broker has all of them. Raises the errors of
        `produce`.
        """
        errors: list[Exception] = []
        recorded = self.accepted_sends.begin([_accepted_send(*each) for each in sends])
        recorded_first = any(_is_recorded_first(send) for send, _ in sends)
        if recorded_first:
            recorded()
        spans = [
            traces.begin(
                "send_handler",
                caller.trace or traces.begun_by(identity.send_id),
                send_id=identity.send_id,
                club_id=send.club_id,
            )
            for send, identity in sends
        ]
        try:
            for (send, identity), span in zip(sends, spans, strict=True):
                self._queue(send, identity, caller, span.trace.headers, errors)
            self.producer.flush(SEND_FLUSH_S)
            if not recorded_first:
                recorded()
            if errors:
                _refuse(errors, sends[0][1].send_id)
        except Exception as error:
            for span in spans:
                traces.end(span, str(error))
            raise
        for span in spans:
            traces.end(span)
        metrics.add(RECIPIENTS[Status.ACCEPTED], sum(accepted_of(*each).requested or 0 for each in sends))

    def _queue(
        self, send: SendRequest, identity: SendIdentity, caller: Caller, headers: Headers, errors: list[Exception]
    ) -> None:
        """Queue the chunks of a send to be produced. Errors of their delivery are added to `errors`."""
        if send.audience is not None:
            self._queue_audience(send, send.audience, identity, caller, headers, errors)
            return
        users = list(dict.fromkeys(send.to_users))
        topic = topics.in_lane(topics.SEND_API, Lane(send.priority))
        chunks = list(_chunks(users, send.recipient_data, identity.chunk_size))
        encoded = [
            self._encoded(send, identity, caller, topic, index, len(chunks), chunk)
            for index, chunk in enumerate(chunks)
        ]
        for index, value in enumerate(encoded):
            key = chunk_id(identity.send_id, index).encode()
            self.producer.produce(topic, key, value, headers, _collect(errors))

    def _queue_audience(
        self,
        send: SendRequest,
        audience: Mapping[str, Any],
        identity: SendIdentity,
        caller: Caller,
        headers: Headers,
        errors: list[Exception],
    ) -> None:
        """Queue the send for the function audience_expander, which produces its chunks."""
        record = AudienceRequested(
            send_id=identity.send_id,
            club_id=send.club_id,
            timestamp=identity.requested_at_ms,
            chunk_size=identity.chunk_size,
            audience=json.dumps(dict(SIMULATORS) if caller.is_test else audience),  # guard: simulator.audience
            send=json.dumps(record_of(send, identity, caller.principal, 0, 1, []).to_avro()),
            key_id=None if caller.recipients_a_day is None else caller.principal,
            recipients_a_day=caller.recipients_a_day,
        )
        value = self.codec.encode(topics.AUDIENCE, "AudienceRequested", record.to_avro())
        self.producer.produce(topics.AUDIENCE, identity.send_id.encode(), value, headers, _collect(errors))

    def _encoded(
        self,
        send: SendRequest,
        identity: SendIdentity,
        caller: Caller,
        topic: str,
        index: int,
        count: int,
        users: Sequence[int],
    ) -> bytes:
        record = record_of(send, identity, caller.principal, index, count, users)
        return self.codec.encode(topic, "SendRequested", record.to_avro())


def _is_recorded_first(send: SendRequest) -> bool:
    return _last_send_at_ms(send) is not None or len(send.to_users) > SMALL_SEND or send.audience is not None


def _accepted_send(send: SendRequest, identity: SendIdentity) -> AcceptedSend:
    return AcceptedSend(
        send=SendKey(send.club_id, identity.send_id),
        accepted_at_ms=identity.requested_at_ms,
        send_at_ms=_last_send_at_ms(send),
        expires_at_ms=_ms(send.expires_at),
        type=send.type,
        users=send.recipients if send.audience is None else None,
        channels=tuple(resolve_channels(send.type, send.channels, send.club_id)),
    )


def record_of(
    send: SendRequest, identity: SendIdentity, principal: str, index: int, count: int, users: Sequence[int]
) -> SendRequested:
    """Return a record of a send. It has no recipients if audience_expander adds them."""
    return SendRequested(
        type=send.type,
        club_id=send.club_id,
        timestamp=identity.requested_at_ms,
        to_users=list(users),
        send_id=identity.send_id,
        chunk_index=index,
        chunk_count=count,
        channels=list(send.channels),
        template=send.template,
        data=send.data,
        recipient_data={
            str(position): own
            for position, user_id in enumerate(users)
            if (own := send.recipient_data.get(str(user_id)))
        }
        if send.recipient_data
        else {},
        locale=send.locale,
        priority=send.priority,
        expires_at=_ms(send.expires_at),
        send_at=_ms(send.send_at),
        send_at_local=send.send_at_local,
        collapse_key=send.collapse_key,
        reference=send.reference,
        principal=principal or None,
    )


def _chunks(
    users: Sequence[int], recipient_data: Mapping[str, Mapping[str, str]], size: int
) -> Iterator[Sequence[int]]:
    """Yield the recipients of each chunk: at most `size`, with at most CHUNK_RECIPIENT_DATA_BYTES of own variables. A
    repeated request has the same chunks.
    """
    if not recipient_data:
        yield from batched(users, size, strict=False)
        return
    chunk: list[int] = []
    total = 0
    for user_id in users:
        own = _bytes_of(recipient_data.get(str(user_id), {}))
        if chunk and (len(chunk) == size or total + own > _CHUNK_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(user_id)
        total += own
    yield chunk


def _last_send_at_ms(send: SendRequest) -> int | None:
    """Return the time at which the last recipients of a scheduled send are notified."""
    return _ms(send.send_at) if send.send_at_local is None else last_ms(send.send_at_local)


def _time_errors(times: Mapping[str, int | None], send_at_local: object, now_ms: int) -> list[FieldError]:
    """Return the errors of the times of a send. Those in `times` are in milliseconds since the epoch."""
    expires_at, send_at = times["expires_at"], times["send_at"]
    errors = []
    if expires_at is not None and expires_at <= now_ms:
        errors.append(FieldError("expires_at", "must lie ahead"))
    if send_at is not None and not now_ms < send_at <= now_ms + MAX_REQUEST_AHEAD_MS:
        errors.append(FieldError("send_at", f"must lie ahead, and not more than {_DAYS_AHEAD} days"))
    elif send_at is not None and expires_at is not None and expires_at <= send_at:
        errors.append(FieldError("send_at", "must come before expires_at"))
    if isinstance(send_at_local, str) and (problem := _local_time_problem(send_at_local, times, now_ms)):
        errors.append(FieldError("send_at_local", problem))
    return errors


def _local_time_problem(text: str, times: Mapping[str, int | None], now_ms: int) -> str | None:
    """Return the problem of a send_at_local that no recipient can wait for; None for any other, and for an invalid
    text.
    """
    first, last, expires_at = first_ms(text), last_ms(text), times["expires_at"]
    if first is None or last is None:
        return None
    if times["send_at"] is not None:
        return "must not be given with send_at"
    if last <= now_ms or first > now_ms + MAX_REQUEST_AHEAD_MS:
        return f"must lie ahead in a time zone, and not more than {_DAYS_AHEAD} days"
    if expires_at is not None and expires_at <= first:
        return "must come before expires_at in a time zone"
    return None


def accepted_of(send: SendRequest, identity: SendIdentity) -> Accepted:
    """Return the counts of an accepted send."""
    users = send.recipients
    return Accepted(
        send_id=identity.send_id,
        requested=None
        if send.audience is not None
        else users * len(resolve_channels(send.type, send.channels, send.club_id)),
        duplicates=len(send.to_users) - users,
    )


def _collect(errors: list[Exception]) -> Any:
    def report(error: Exception | None) -> None:
        if error is not None:
            errors.append(error)

    return report


def _refuse(errors: Sequence[Exception], send_id: str) -> None:
    if all(isinstance(error, DeadLetter) for error in errors):
        raise Problem(413, f"the send is larger than Kafka accepts: {errors[0]}")
    raise Problem(503, f"Kafka has not taken the whole of send {send_id}: {errors[0]}", retry_after_s=5) from errors[0]


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path of a field such as `to_users[3]`, as the caller wrote it; it is truncated if the caller's own
    names are too long.
    """
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text[:_LONGEST_PATH]
