"""Accepts a send over REST: it returns only after the broker has all records of the send."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NotRequired, TypedDict
from uuid import uuid4

from functions.send_handler.accepted_sends import AcceptedSends, check_possible
from functions.send_handler.request_once import PartlyExecuted
from functions.send_handler.send_records import SendIdentity, chunks_of, record_of
from functions.send_handler.send_request import SendRequest
from masscomm.chain.chunks import SMALL_SEND
from masscomm.clock import Clock
from masscomm.domain.audit import Action, Result, audit_entry
from masscomm.domain.categories import resolve_channels
from masscomm.domain.channels import CHANNELS
from masscomm.domain.ids import chunk_id, id_of_single_delivery
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.records import AudienceRequested
from masscomm.domain.send_content import content_of_chunk, content_of_send
from masscomm.domain.send_controls import SendKey
from masscomm.domain.simulator import AUDIENCE as SIMULATORS
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import SEND_FLUSH_S, TOO_OLD_S
from masscomm.errors import DeadLetter, OtherContent, OtherRecipients
from masscomm.http.problem import FieldError, FieldErrorBody, Problem
from masscomm.http.rest import Links
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Headers, Producer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.metric_names import RECIPIENTS, SENDS_ACCEPTED
from masscomm.stores.audit_log.port import AuditLog, record_or_log
from masscomm.stores.decision_log.port import DecisionLog, unpack_decisions
from masscomm.stores.delivery_ledger.port import DeliveryLedger, claim_for, refusal
from masscomm.stores.send_controls import AcceptedSend, NamedSend, OtherSend, check_part, place_part
from masscomm.texts import Text

logger = logs.logger("send_handler")


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
            body["warnings"] = [each.body() for each in warnings]
        return body


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The caller of the REST API."""

    # The id of the API key, or another principal that the authorizer set.
    principal: str = ""
    trace: traces.Trace | None = None
    # The principal with whose use the limit is counted.
    counted_under: str = ""
    # The limit of the API key; None: it has none.
    recipients_a_day: int | None = None
    # Whether the API key sends to simulator recipients only.
    is_test: bool = False


ANONYMOUS = Caller()


@dataclass(frozen=True, kw_only=True)
class RequestSend:
    """The use case that produces sends. Each function environment has one instance."""

    codec: Codec
    producer: Producer
    clock: Clock
    audit_log: AuditLog
    accepted_sends: AcceptedSends
    decision_log: DecisionLog
    ledger: DeliveryLedger
    # The number of recipients in each chunk of a new send.
    chunk_size: int = CHUNK_SIZE

    def identify(self, send: SendRequest) -> SendIdentity:
        """Return the identity of a new send. Raises the errors of check_possible."""
        identity = self.new_identity() if send.send_id is None else replace(self.new_identity(), send_id=send.send_id)
        check_possible(send, identity.requested_at_ms, self.accepted_sends.controls)
        return identity

    def check_id(self, send: SendRequest, identity: SendIdentity, caller: Caller = ANONYMOUS) -> None:
        """Check that a send may have the id that its caller chose. Nothing is stored: a request that is refused
        afterwards leaves the id free.

        Raises Problem with status 409 if the id belongs to another send, and Retry or Stop from the store.
        """
        if send.send_id is None:
            return
        with _other_send():
            stored = self.accepted_sends.controls.registered(send.send_id)
            if stored is not None:
                check_part(stored, self._named(send, identity, caller), send.part_index, send.part_digest())
                return
            # A small send by Kafka is not registered: its first chunk has the first decisions.
            packed = self.decision_log.find(chunk_id(send.send_id, 0))
            if packed is not None:  # guard: named_sends.decided_send
                chunk = list(islice(chunks_of(_users(send), send.recipient_data, identity.chunk_size), 1))
                users = list(chunk[0]) if chunk else []
                content = _content(send, identity)
                unpack_decisions(packed, positions=list(range(len(users))), user_ids=users, send=content)
            else:
                self._check_leased(send, identity)

    def _check_leased(self, send: SendRequest, identity: SendIdentity) -> None:
        """Check that no send by Kafka to a single user has the id: without first decisions, the leases of its delivery
        have its content. Raises OtherContent, OtherRecipients, Retry or Stop.
        """
        chunk = chunk_id(send.send_id or "", 0)
        stored = self.ledger.claims([id_of_single_delivery(chunk, channel) for channel in CHANNELS])
        if not stored:
            return
        record = record_of(send, identity, "", 0, 1, _users(send))
        claim = claim_for(record.to_users, content_of_chunk(record, content_of_send(record)))
        for other in stored.values():
            if (refused := refusal(claim, other)) is not None:  # guard: named_sends.leased_send
                raise refused

    def placed(self, send: SendRequest, identity: SendIdentity, caller: Caller = ANONYMOUS) -> SendIdentity:
        """Return the identity of a part of a send whose id the caller chose, which is the same for each repetition; of
        another send the given one.

        Raises the errors of `check_id`.
        """
        if send.send_id is None:
            return identity
        with _other_send():
            stored, part = place_part(
                self.accepted_sends.controls,
                self._named(send, identity, caller),
                send.part_index,
                send.part_digest(),
                lambda size: sum(1 for _ in chunks_of(_users(send), send.recipient_data, size)),
            )
        return replace(
            identity,
            # A part may be requested until the send's send_at, next year; chunks of an earlier time are not counted.
            # guard: sends.late_part
            requested_at_ms=max(stored.accepted_at_ms, identity.requested_at_ms - TOO_OLD_S * 1000 // 2),
            chunk_size=identity.chunk_size if stored.named is None else stored.named.chunk_size,
            first_chunk=part.first_chunk,
            chunk_count=part.chunk_count,
        )

    def _named(self, send: SendRequest, identity: SendIdentity, caller: Caller) -> AcceptedSend:
        """Return the send of a part, without parts."""
        named = NamedSend(chunk_size=identity.chunk_size, part_count=send.part_count, parts={})
        return replace(_accepted_send(send, identity, caller), named=named)

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

    def produce_all(self, sends: Sequence[tuple[SendRequest, SendIdentity]], caller: Caller = ANONYMOUS) -> None:
        """Produce the chunks of several sends, and return when the broker has all of them. Raises the errors of
        `produce`.
        """
        errors: list[Exception] = []
        recorded = self.accepted_sends.begin([_accepted_send(*each, caller) for each in sends])
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
            records = sum(
                self._queue(send, identity, caller, span.trace.headers, errors)
                for (send, identity), span in zip(sends, spans, strict=True)
            )
            self.producer.flush(SEND_FLUSH_S)
            if not recorded_first:
                recorded()
            if errors:
                _refuse(errors, records, sends[0][1].send_id)
        except Exception as error:
            for span in spans:
                traces.end(span, str(error))
            raise
        for span in spans:
            traces.end(span)
        metrics.add(SENDS_ACCEPTED, len(sends))
        metrics.add(RECIPIENTS[Status.ACCEPTED], sum(accepted_of(*each).requested or 0 for each in sends))

    def _queue(
        self, send: SendRequest, identity: SendIdentity, caller: Caller, headers: Headers, errors: list[Exception]
    ) -> int:
        """Queue the chunks of a send to be produced, and return the number of records. Errors of their delivery are
        added to `errors`.
        """
        if send.audience is not None:
            self._queue_audience(send, send.audience, identity, caller, headers, errors)
            return 1
        users = _users(send)
        topic = topics.in_lane(topics.SEND_API, Lane(send.priority))
        chunks = list(chunks_of(users, send.recipient_data, identity.chunk_size))
        encoded = [
            self._encoded(send, identity, caller, topic, index, identity.chunk_count or len(chunks), chunk)
            for index, chunk in enumerate(chunks, identity.first_chunk)
        ]
        for index, value in enumerate(encoded, identity.first_chunk):
            key = chunk_id(identity.send_id, index).encode()
            self.producer.produce(topic, key, value, headers, _collect(errors))
        return len(chunks)

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
            key_id=None if caller.recipients_a_day is None else caller.counted_under,
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
    return send.last_send_at_ms is not None or len(send.to_users) > SMALL_SEND or send.audience is not None


def _accepted_send(send: SendRequest, identity: SendIdentity, caller: Caller) -> AcceptedSend:
    return AcceptedSend(
        send=SendKey(send.club_id, identity.send_id),
        accepted_at_ms=identity.requested_at_ms,
        send_at_ms=send.last_send_at_ms,
        send_at_local=send.send_at_local,
        expires_at_ms=send.expires_at_ms,
        type=send.type,
        users=send.recipients if send.audience is None else None,
        channels=tuple(resolve_channels(send.type, send.channels, send.club_id)),
        reference=send.reference,
        is_test=caller.is_test,
        content=_content(send, identity),
    )


def _users(send: SendRequest) -> list[int]:
    return list(dict.fromkeys(send.to_users))


def _content(send: SendRequest, identity: SendIdentity) -> str:
    """Return the digest of the content of the send's records."""
    return content_of_send(record_of(send, identity, "", 0, 1, []))


@contextmanager
def _other_send() -> Iterator[None]:
    """Convert the error about an id that belongs to another send to Problem with status 409. It does not say to which:
    the answer is the same for a send of another tenant.
    """
    try:
        yield
    except (OtherSend, OtherRecipients, OtherContent) as error:
        message = Text.SEND_ID_OF_OTHERS.filled()
        raise Problem(409, Text.SEND_ID_IN_USE.filled(), errors=[FieldError("send_id", message)]) from error


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


def _refuse(errors: Sequence[Exception], records: int, send_id: str) -> None:
    """Raise the problem of a request of which Kafka did not accept each record."""
    if not all(isinstance(error, DeadLetter) for error in errors):
        message = Text.SEND_INCOMPLETE.filled(send_id=send_id, reason=str(errors[0]))
        raise PartlyExecuted(503, message, retry_after_s=5) from errors[0]
    problem = Problem if len(errors) == records else PartlyExecuted  # guard: idempotency.partly_refused
    maximum = next(each.max_message_bytes for each in topics.chain_topics() if each.name == topics.SEND_API)
    raise problem(413, Text.SEND_TOO_LARGE.filled(maximum=maximum, reason=str(errors[0])))
