"""Reads the request (recipients to decide about) in a consumed record."""

from masscomm.chain.chunks import SMALL_SEND, chunk_of, fault_of_send, lane_of_send, recheck_of, send_at_of
from masscomm.chain.pausing import since_resumed
from masscomm.decisions.chunk import Chunk
from masscomm.domain.delays import RESUMED_AT_HEADER, SEND_AT
from masscomm.domain.quiet_hours import DELAY_REASON as QUIET_HOURS
from masscomm.domain.records import SendRequested
from masscomm.domain.send_content import content_of_chunk, content_of_send
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import REPEATED_RECIPIENTS


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
