"""Reads the request (recipients to decide about) in a consumed record."""

from dataclasses import replace
from typing import NamedTuple

from masscomm.chain.chunks import SMALL_SEND, chunk_of, fault_of_send, lane_of_send, recheck_of, send_at_of
from masscomm.chain.pausing import since_resumed
from masscomm.domain.ids import others_id
from masscomm.domain.lanes import Lane
from masscomm.domain.quiet_hours import DELAY_REASON as QUIET_HOURS
from masscomm.domain.records import CARRIED, RecheckRequested, SendRequested
from masscomm.domain.send_content import content_of_chunk, content_of_send, digest_of_fields
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import REPEATED_RECIPIENTS
from masscomm.stores.delayed_records import RESUMED_AT_HEADER, SEND_AT
from masscomm.stores.send_controls import SendControl

# The fields that make up the content of a request. A producer that repeats a chunk of a send may set its times anew;
# the content is still the same.
_CONTENT = tuple(name for name in CARRIED if name not in ("timestamp", "expires_at"))


class Chunk(NamedTuple):
    """The request in a consumed record: the recipients of a send's chunk, or of a recheck record."""

    request: RecheckRequested
    # The lane of the consumed record.
    lane: Lane = Lane.BULK
    # Whether the record came from a topic of new sends.
    is_new: bool = False
    # Whether the lane is already the broadcast queue to which derived records are produced.
    queued: bool = True
    send_at: int | None = None
    # The digest of the content of a new send; "" for a recheck record, whose chunk was compared before.
    content: str = ""
    # Whether a producer of Kafka chose the id of the new send.
    is_named: bool = False
    # Whether the content of the send is registered, because it is compared with that of other records.
    is_registered: bool = False
    # Whether the send of these recipients is cancelled.
    cancelled: bool = False
    # The control of the send if the send is paused.
    paused: SendControl | None = None
    # The control of the send if the request waits for a send_at that replaces the one in its record.
    rescheduled: SendControl | None = None
    # The reason why the record is dead-lettered; None if it is valid.
    fault: DeadLetter | None = None

    @property
    def about(self) -> RecheckRequested:
        """Return the record of these recipients, whose ids log lines contain."""
        return self.request

    def under(self, control: SendControl, now_ms: int) -> "Chunk":
        """Return the chunk with what the control of its send says at a time. Raises Retry if it cannot be read."""
        control.check_readable()
        if not control.cancelled and control.revision == 0:
            return self  # Copying the chunk takes longer than the rest of this function.
        cancelled = control.is_cancelled(now_ms)
        chunk = self._replace(cancelled=cancelled, paused=control if control.is_paused(now_ms) else None)
        if control.send_at_ms is None:
            return chunk
        if self.send_at is not None:
            request = replace(self.request, send_at_local=None)
            return chunk._replace(request=request, send_at=control.send_at_ms)
        if self.request.why != SEND_AT and self.request.send_at_local is None:
            return chunk
        waits = control.send_at_ms > now_ms and not cancelled  # guard: send_controls.moved_send
        return chunk._replace(
            request=replace(self.request, waited_until=control.send_at_ms, send_at_local=None),
            rescheduled=control if waits else None,
        )

    def with_others_id(self) -> "Chunk":
        """Return the chunk under another id, because decisions about other users are already recorded under its own
        id.
        """
        record_id = others_id(self.request.record_id, self.request.user_ids)
        return self._replace(request=replace(self.request, record_id=record_id))


def read_chunk(record: KafkaRecord, codec: Codec, now_ms: int) -> Chunk:
    """Return the recipients to decide about in a record of the topics send.* or recheck. Raises DeadLetter or Retry."""
    if topics.base_of(record.topic) == topics.RECHECK:
        request = since_resumed(recheck_of(codec.decode("RecheckRequested", record.value)), record)
        # Many delayed records may be due at the same time, and the tenant's queue may now be leased to another tenant,
        # so the queue is assigned again.
        queued = request.why not in (SEND_AT, QUIET_HOURS) and record.header(RESUMED_AT_HEADER) is None
        return Chunk(request=request, lane=topics.lane_of(record.topic), queued=queued)
    send = SendRequested.from_avro(codec.decode("SendRequested", record.value))
    content = content_of_send(send)
    request = chunk_of(send, record, content_of_chunk(send, content))
    metrics.add(REPEATED_RECIPIENTS, len(send.to_users) - len(request.positions))
    send_at = send_at_of(send)
    is_named = bool(send.send_id) and topics.base_of(record.topic) == topics.SEND_MONOLITH
    return Chunk(
        request=request,
        lane=lane_of_send(send, record.topic),
        is_new=True,
        queued=False,
        send_at=send_at,
        content=content,
        is_named=is_named,
        # A small send that is decided at once is compared by the decision log, without another request to the store.
        is_registered=is_named and (send.chunk_count > 1 or len(send.to_users) > SMALL_SEND or send_at is not None),
        fault=fault_of_send(send, record, now_ms),
    )


def content_of(request: RecheckRequested) -> str:
    """Return a digest of the request's content. Channels are omitted, because the channels of a category may change
    before a redelivery; those that a new send names are in `Chunk.content`.
    """
    return digest_of_fields(request, _CONTENT)
