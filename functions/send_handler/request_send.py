"""Take a send over REST: valid or refused by field, and on its topic before it is accepted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from masscomm.clock import Clock
from masscomm.domain.categories import CHANNELS, NAME_PATTERN, resolve_channels
from masscomm.domain.ids import chunk_id
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import (
    CHUNK_SIZE,
    LARGEST_ID,
    MAX_COLLAPSE_KEY,
    MAX_DATA_BYTES,
    MAX_DATA_KEY,
    MAX_DATA_KEYS,
    MAX_LOCALE,
    MAX_RECIPIENTS,
    MAX_REFERENCE,
    MAX_REQUEST_AHEAD_MS,
    MAX_TEMPLATE,
)
from masscomm.domain.records import SendRequested
from masscomm.domain.statuses import Status
from masscomm.errors import DeadLetter
from masscomm.http.problem import FieldError, Problem
from masscomm.http.tenant import Clubs
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Headers, Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import RECIPIENTS

_FLUSH_S = 20.0
_LONGEST_PATH = 200

Identifier = Annotated[int, Field(ge=1, le=LARGEST_ID)]
Word = Annotated[str, Field(min_length=1, max_length=MAX_DATA_KEY)]
# What is counted by: it ends up in topics, tables and logs, so it is plain.
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class SendRequest(BaseModel):
    """The body of POST /v1/sends."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Name
    club_id: Identifier
    to_users: Annotated[list[Identifier], Field(min_length=1, max_length=MAX_RECIPIENTS)]
    channels: Annotated[list[Literal[*CHANNELS]], Field(max_length=len(CHANNELS))] = []  # type: ignore[valid-type]
    template: Annotated[Name, Field(max_length=MAX_TEMPLATE)] | None = None
    data: Annotated[dict[Word, str], Field(max_length=MAX_DATA_KEYS)] = {}
    locale: Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$", max_length=MAX_LOCALE)] | None = (
        None
    )
    priority: Literal["bulk", "critical"] = "bulk"
    expires_at: Annotated[AwareDatetime, Field(strict=False)] | None = None
    send_at: Annotated[AwareDatetime, Field(strict=False)] | None = None
    collapse_key: Annotated[str, Field(min_length=1, max_length=MAX_COLLAPSE_KEY)] | None = None
    reference: Annotated[str, Field(min_length=1, max_length=MAX_REFERENCE)] | None = None

    @field_validator("data")
    @classmethod
    def _bounded(cls, data: dict[str, str]) -> dict[str, str]:
        if sum(len(key.encode()) + len(value.encode()) for key, value in data.items()) > MAX_DATA_BYTES:
            raise ValueError(f"more than {MAX_DATA_BYTES} bytes in all")
        return data

    @field_validator("expires_at", "send_at", mode="before")
    @classmethod
    def _written_out(cls, value: object) -> object:
        if value is not None and not (isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[Tt ]", value)):
            raise ValueError("an RFC 3339 time with its zone, as a string")
        return value


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """requested: distinct notifications (a user on a channel); duplicates: how often a user was named again."""

    send_id: str
    requested: int
    duplicates: int

    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        return {
            "send_id": self.send_id,
            "status": "accepted",
            "requested": self.requested,
            "duplicates": self.duplicates,
            "links": {"self": f"/v1/sends/{self.send_id}"},
        }


def parse_request(body: str | None) -> SendRequest:
    """The request in a body. Errors: Problem 400, naming each field that is wrong."""
    try:
        document = read_json(body or "", bounded=False)
    except InvalidJson as error:
        raise Problem(
            400, f"the body is not JSON: {error}", errors=[FieldError("", "must be a JSON object")]
        ) from error
    if not isinstance(document, dict):
        raise Problem(400, "the body is not a JSON object", errors=[FieldError("", "must be a JSON object")])
    try:
        return SendRequest.model_validate(document)
    except ValidationError as error:
        errors = [FieldError(_path(entry["loc"]), entry["msg"]) for entry in error.errors(include_url=False)[:20]]
        raise Problem(400, f"{errors[0].field}: {errors[0].message}", errors=errors) from error


def check_tenant(send: SendRequest, clubs: Clubs) -> None:
    """Errors: Problem 403 where these credentials may not send for the club."""
    if send.club_id not in clubs:
        message = f"{send.club_id} is none of the clubs of these credentials"
        raise Problem(403, "These credentials may not send for this club.", errors=[FieldError("club_id", message)])


@dataclass(frozen=True, kw_only=True)
class RequestSend:
    """The use case; one for each function environment."""

    codec: Codec
    producer: Producer
    clock: Clock

    def request(self, send: SendRequest, came_with: traces.Trace | None = None) -> Accepted:
        """Put the send's chunks on send.api and answer when the broker has them all. came_with: the caller's trace.

        Errors: Problem 400 (expired; a send_at that is past, too far ahead or not before expires_at), 503 (Kafka has
        not taken every chunk: the caller asks again with a send of its own, those chunks that were taken are
        processed), Retry and Stop of the registry.
        """
        now_ms = self.clock.now_ms()
        expires_at = None if send.expires_at is None else _ms(send.expires_at)
        if expires_at is not None and expires_at <= now_ms:
            raise Problem(400, "expires_at: has passed", errors=[FieldError("expires_at", "must lie ahead")])
        send_at = None if send.send_at is None else _ms(send.send_at)
        _check_send_at(send_at, expires_at, now_ms)
        send_id = str(uuid4())
        logs.note(send_id=send_id)
        span = traces.begin(
            "send_handler", came_with or traces.begun_by(send_id), send_id=send_id, club_id=send.club_id
        )
        try:
            accepted = self._put(send, send_id, expires_at, send_at, now_ms, span.trace.headers)
        except Exception as error:
            traces.end(span, str(error))
            raise
        traces.end(span)
        metrics.add(RECIPIENTS[Status.ACCEPTED], accepted.requested)
        return accepted

    def _put(
        self,
        send: SendRequest,
        send_id: str,
        expires_at: int | None,
        send_at: int | None,
        now_ms: int,
        headers: Headers,
    ) -> Accepted:
        users = list(dict.fromkeys(send.to_users))
        lane = Lane(send.priority)
        chunks = list(batched(users, CHUNK_SIZE, strict=False))
        errors: list[Exception] = []
        encoded = [
            self._encoded(send, send_id, expires_at, send_at, now_ms, lane, index, len(chunks), chunk)
            for index, chunk in enumerate(chunks)
        ]
        for index, value in enumerate(encoded):
            key = chunk_id(send_id, index).encode()
            self.producer.produce(topics.in_lane(topics.SEND_API, lane), key, value, headers, _collect(errors))
        self.producer.flush(_FLUSH_S)
        if errors:
            _refuse(errors, send_id)
        channels = resolve_channels(send.type, send.channels)
        return Accepted(
            send_id=send_id,
            requested=len(users) * len(channels),
            duplicates=len(send.to_users) - len(users),
        )

    def _encoded(
        self,
        send: SendRequest,
        send_id: str,
        expires_at: int | None,
        send_at: int | None,
        now_ms: int,
        lane: Lane,
        index: int,
        count: int,
        users: Sequence[int],
    ) -> bytes:
        record = SendRequested(
            type=send.type,
            club_id=send.club_id,
            timestamp=now_ms,
            to_users=list(users),
            send_id=send_id,
            chunk_index=index,
            chunk_count=count,
            channels=list(send.channels),
            template=send.template,
            data=send.data,
            locale=send.locale,
            priority=send.priority,
            expires_at=expires_at,
            send_at=send_at,
            collapse_key=send.collapse_key,
            reference=send.reference,
        )
        return self.codec.encode(topics.in_lane(topics.SEND_API, lane), "SendRequested", record.to_avro())


def _check_send_at(send_at: int | None, expires_at: int | None, now_ms: int) -> None:
    if send_at is None:
        return
    if not now_ms < send_at <= now_ms + MAX_REQUEST_AHEAD_MS:
        problem = f"must lie ahead, and not more than {MAX_REQUEST_AHEAD_MS // 86_400_000} days"
    elif expires_at is not None and expires_at <= send_at:
        problem = "must come before expires_at"
    else:
        return
    raise Problem(400, f"send_at: {problem}", errors=[FieldError("send_at", problem)])


def _collect(errors: list[Exception]) -> Any:
    def report(error: Exception | None) -> None:
        if error is not None:
            errors.append(error)

    return report


def _refuse(errors: Sequence[Exception], send_id: str) -> None:
    if all(isinstance(error, DeadLetter) for error in errors):
        raise Problem(413, f"the send is larger than Kafka takes: {errors[0]}")
    raise Problem(503, f"Kafka has not taken the whole of send {send_id}: {errors[0]}", retry_after_s=5) from errors[0]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _path(location: tuple[int | str, ...]) -> str:
    """`to_users[3]`, as the caller would write it; cut short where the caller's own names are endless."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text[:_LONGEST_PATH]
