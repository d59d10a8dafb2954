"""Accepts a send over REST: it returns only after the broker has all records of the send."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict
from uuid import uuid4

from functions.send_handler.registration import Registration
from functions.send_handler.request_once import PartlyExecuted
from functions.send_handler.send_records import (
    ANONYMOUS,
    Caller,
    SendIdentity,
    channels_of,
    chunks_of,
    count_chunks,
    record_of,
)
from functions.send_handler.send_request import SendRequest
from masscomm.clock import Clock
from masscomm.domain.audit import Action, Result, audit_entry
from masscomm.domain.ids import chunk_id
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.local_times import first_ms
from masscomm.domain.records import AudienceRequested
from masscomm.domain.send_content import content_of_send, described
from masscomm.domain.sends import Parts, Send, SendKey, Source
from masscomm.domain.simulator import AUDIENCE as SIMULATORS
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import SEND_FLUSH_S, TOO_OLD_S
from masscomm.errors import DeadLetter
from masscomm.http.problem import FieldError, FieldErrorBody, Problem
from masscomm.http.rest import Links
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Headers, Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import RECIPIENTS, SENDS_ACCEPTED
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.sends.port import FoundPart, OtherSend, find_part, place_part
from masscomm.texts import Text

logger = logs.logger("send_handler")


class AcceptedBody(TypedDict):
    """An accepted send."""

    send_id: str
    status: Literal["accepted", "expanding", "failed"]
    """expanding: the users of the audience are sought, so that `requested` is not known yet. failed: of a repeated
    request whose audience could not be expanded."""
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
    # Whether the audience of a send that is requested again could not be expanded.
    has_failed: bool = False

    def body(self, warnings: Sequence[FieldError] = ()) -> AcceptedBody:
        body: AcceptedBody = {
            "send_id": self.send_id,
            "status": "failed" if self.has_failed else "expanding" if self.requested is None else "accepted",
            "requested": self.requested,
            "duplicates": self.duplicates,
            "links": {"self": f"/v1/sends/{self.send_id}"},
        }
        if warnings:
            body["warnings"] = [each.body() for each in warnings]
        return body


@dataclass(frozen=True, kw_only=True)
class RequestSend:
    """The use case that produces sends. Each function environment has one instance."""

    codec: Codec
    producer: Producer
    clock: Clock
    audit_log: AuditLog
    registration: Registration
    # The number of recipients in each chunk of a new send.
    chunk_size: int = CHUNK_SIZE

    def find_part(self, send: SendRequest, identity: SendIdentity, caller: Caller = ANONYMOUS) -> FoundPart | None:
        """Return the registered send and part of an id that the caller chose; None if the service makes the id.
        Nothing is stored: a request that is refused afterwards leaves the id free.

        Raises Problem with status 409 if the id belongs to another send, and Retry or Stop from the register.
        """
        if send.send_id is None:
            return None
        wanted = _described(send, identity, caller)
        with _other_send():
            return find_part(self.registration.sends, wanted, send.part_index, send.part_digest)

    def placed(
        self, send: SendRequest, identity: SendIdentity, caller: Caller, found: FoundPart | None
    ) -> SendIdentity:
        """Return the identity of a part of a send whose id the caller chose, which is the same for each repetition; of
        another send the given one.

        Raises the errors of `find_part`.
        """
        if found is None:
            return identity
        with _other_send():
            stored, part = place_part(
                self.registration.sends,
                _described(send, identity, caller),
                send.part_index,
                send.part_digest,
                lambda size: count_chunks(send, size),
                found,
            )
        return replace(
            identity,
            # A part may be requested until the send's send_at, next year; chunks of an earlier time are not counted.
            # guard: sends.late_part
            requested_at_ms=max(stored.requested_at_ms, identity.requested_at_ms - TOO_OLD_S * 1000 // 2),
            chunk_size=identity.chunk_size if stored.parts is None else stored.parts.chunk_size,
            first_chunk=part.first_chunk,
            chunk_count=part.chunk_count,
            stored=stored,
            is_produced=part.is_produced,
        )

    def new_identity(self, send_id: str | None = None) -> SendIdentity:
        """Return an identity with the present time and a new id, if none is given."""
        return SendIdentity(
            send_id=send_id or str(uuid4()), requested_at_ms=self.clock.now_ms(), chunk_size=self.chunk_size
        )

    def produce(self, send: SendRequest, identity: SendIdentity, caller: Caller = ANONYMOUS) -> Accepted:
        """Produce the chunks of a send to send.api, and return when the broker has all of them.

        A repeated call with the same identity produces the same records, or none if the broker has them all.

        Raises Problem with status 503 if Kafka did not accept every chunk (the accepted ones are processed), 413 or
        409, and Retry or Stop from the schema registry or the register.
        """
        logs.note(send_id=identity.send_id)
        if identity.is_produced:  # guard: named_sends.produced_part
            return accepted_of(send, identity)
        self.produce_all([(send, identity)], identity.send_id, caller)
        if identity.stored is not None:
            self.registration.mark_produced(identity.stored, send.part_index)
        accepted = accepted_of(send, identity)
        logger.info("send accepted", requested=accepted.requested)
        return accepted

    @contextmanager
    def _audited(self, sends: Sequence[SendRequest], subject: str, caller: Caller) -> Iterator[None]:
        """Record the request of these sends in the audit log of their club (tenant): failed if this context ends with
        an error, because a part of the sends may be on Kafka.
        """
        try:
            yield
        except Exception:
            self._audit(sends, subject, caller, Result.FAILED)
            raise
        self._audit(sends, subject, caller, Result.OK)

    def _audit(self, sends: Sequence[SendRequest], subject: str, caller: Caller, result: Result) -> None:
        if not sends:  # The times of each send of a repeated batch had passed.
            return
        what = sends[0].type if len(sends) == 1 else f"{len(sends)} sends"
        entry = audit_entry(
            Action.SEND_REQUESTED,
            club_id=sends[0].club_id,
            at_ms=self.clock.now_ms(),
            principal=caller.principal,
            subject=subject,
            result=result,
            detail=f"{what}, {sum(send.recipients for send in sends)} recipients",
        )
        record_or_log(self.audit_log, entry, logger)  # guard: audit.requested_send

    def produce_all(
        self, sends: Sequence[tuple[SendRequest, SendIdentity]], subject: str, caller: Caller = ANONYMOUS
    ) -> None:
        """Produce the chunks of several sends, and return when the broker has all of them. The request with this id is
        recorded in the audit log. Raises the errors of `produce`.
        """
        errors: list[Exception] = []
        new = [_described(*each, caller) for each in sends if each[1].stored is None]
        first = [each for each in new if each.is_listed]
        with self._audited([send for send, _ in sends], subject, caller), _traced(sends, caller) as spans:
            if first:  # guard: sends.registered_first
                with _other_send():
                    self.registration.register(first)
            records = sum(
                self._queue(send, identity, caller, span.trace.headers, errors)
                for (send, identity), span in zip(sends, spans, strict=True)
            )
            self.registration.try_to_register([each for each in new if not each.is_listed])
            self.producer.flush(SEND_FLUSH_S)
            if errors:
                _refuse(errors, records, sends[0][1].send_id)
        metrics.add(SENDS_ACCEPTED, len(sends))
        metrics.add(RECIPIENTS[Status.ACCEPTED], sum(accepted_of(*each).requested or 0 for each in sends))

    def _queue(
        self, send: SendRequest, identity: SendIdentity, caller: Caller, headers: Headers, errors: list[Exception]
    ) -> int:
        """Queue the chunks of a send to be produced, and return the number of records. Errors of their delivery are
        added to `errors`.
        """
        if send.audience is not None:
            value = self._audience_record(send, send.audience, identity, caller)
            self.producer.produce(topics.AUDIENCE, identity.send_id.encode(), value, headers, _collect(errors))
            return 1
        topic = topics.in_lane(topics.SEND_API, send.lane(identity.requested_at_ms))
        chunks = list(chunks_of(send, identity.chunk_size))
        count = identity.chunk_count or len(chunks)
        encoded = [
            self.codec.encode(topic, "SendRequested", record_of(send, identity, caller, index, count, chunk).to_avro())
            for index, chunk in enumerate(chunks, identity.first_chunk)
        ]
        for index, value in enumerate(encoded, identity.first_chunk):
            key = chunk_id(identity.send_id, index).encode()
            self.producer.produce(topic, key, value, headers, _collect(errors))
        return len(chunks)

    def _audience_record(
        self, send: SendRequest, audience: Mapping[str, Any], identity: SendIdentity, caller: Caller
    ) -> bytes:
        """Return the record of the send for the function audience_expander, which produces its chunks."""
        record = AudienceRequested(
            send_id=identity.send_id,
            club_id=send.club_id,
            timestamp=identity.requested_at_ms,
            chunk_size=identity.chunk_size,
            audience=json.dumps(dict(SIMULATORS) if caller.is_test else audience),  # guard: simulator.audience
            send=json.dumps(record_of(send, identity, caller, 0, 1, []).to_avro()),
            key_id=None if caller.recipients_a_day is None else caller.counted_under,
            recipients_a_day=caller.recipients_a_day,
            expand_at=_expand_at(send, identity),
        )
        return self.codec.encode(topics.AUDIENCE, "AudienceRequested", record.to_avro())


def _expand_at(send: SendRequest, identity: SendIdentity) -> int | None:
    """Return the time in ms before which the users of a send to an audience are not sought; None: at the request."""
    first = send.send_at_ms if send.send_at_local is None else first_ms(send.send_at_local)
    if send.audience_at == "request" or first is None or first <= identity.requested_at_ms:
        return None
    return first


@contextmanager
def _traced(sends: Sequence[tuple[SendRequest, SendIdentity]], caller: Caller) -> Iterator[list[traces.Span]]:
    """Yield a span for each send; all of them end with this context, and have its error."""
    spans = [
        traces.begin(
            "send_handler",
            caller.trace or traces.begun_by(identity.send_id),
            send_id=identity.send_id,
            club_id=send.club_id,
        )
        for send, identity in sends
    ]
    error: str | None = None
    try:
        yield spans
    except Exception as raised:
        error = str(raised)
        raise
    finally:
        for span in spans:
            traces.end(span, error)


def _described(send: SendRequest, identity: SendIdentity, caller: Caller) -> Send:
    """Return a requested send as it is registered; of one with parts, before any part is."""
    parts = None if send.send_id is None else Parts(count=send.part_count, chunk_size=identity.chunk_size)
    is_to_audience = send.audience is not None
    record = record_of(send, identity, caller, 0, 1, [])
    users = set(send.to_users)
    return described(
        record,
        SendKey(send.club_id, identity.send_id),
        Source.REST,
        lane=send.lane(identity.requested_at_ms),
        named=users if send.part_count == 1 else (),
        content=content_of_send(record),
        chunks=None if is_to_audience or parts is not None else count_chunks(send, identity.chunk_size),
        users=None if is_to_audience else len(users),
        channels=tuple(channels_of(send, identity)),
        parts=parts,
        is_to_audience=is_to_audience,
    )


@contextmanager
def _other_send() -> Iterator[None]:
    """Convert the error about an id that belongs to another send to Problem with status 409. It does not say to which:
    the answer is the same for a send of another tenant.
    """
    try:
        yield
    except OtherSend as error:
        message = Text.SEND_ID_OF_OTHERS.filled()
        raise Problem(409, Text.SEND_ID_IN_USE.filled(), errors=[FieldError("send_id", message)]) from error


def accepted_of(send: SendRequest, identity: SendIdentity) -> Accepted:
    """Return the counts of an accepted send."""
    users = send.recipients
    requested: int | None = users * len(channels_of(send, identity))
    expansion = None if identity.stored is None else identity.stored.expansion
    if send.audience is not None:
        requested = None if expansion is None else expansion.requested
    failed = expansion is not None and expansion.error is not None
    return Accepted(
        send_id=identity.send_id, requested=requested, duplicates=len(send.to_users) - users, has_failed=failed
    )


def _collect(errors: list[Exception]) -> Any:
    def report(error: Exception | None) -> None:
        if error is not None:
            errors.append(error)

    return report


def _refuse(errors: Sequence[Exception], records: int, send_id: str) -> None:
    """Raise the problem of a request of which Kafka did not accept each record."""
    if not all(isinstance(error, DeadLetter) for error in errors):
        message = Text.SEND_INCOMPLETE.filled(send_id=send_id, reason=str(errors[0]))
        raise PartlyExecuted(503, message, retry_after_s=5) from errors[0]
    problem = Problem if len(errors) == records else PartlyExecuted  # guard: idempotency.partly_refused
    maximum = next(each.max_message_bytes for each in topics.chain_topics() if each.name == topics.SEND_API)
    raise problem(413, Text.SEND_TOO_LARGE.filled(maximum=maximum, reason=str(errors[0])))
