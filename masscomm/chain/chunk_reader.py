"""Reads the request (recipients to decide about) in a consumed record."""

from masscomm.chain.chunks import chunk_of, fault_of_send, lane_of_send, recheck_of, send_at_of
from masscomm.chain.pausing import since_resumed
from masscomm.decisions.chunk import Chunk
from masscomm.domain.delays import RESUMED_AT_HEADER, SEND_AT
from masscomm.domain.digests import DELAY_REASON as DIGEST
from masscomm.domain.fallbacks import DELAY_REASON as FALLBACK
from masscomm.domain.pace import DELAY_REASON as PACE
from masscomm.domain.quiet_hours import DELAY_REASON as QUIET_HOURS
from masscomm.domain.records import RecheckRequested, SendRequested
from masscomm.domain.send_content import content_of_chunk, content_of_send, described
from masscomm.domain.sends import Send, SendKey, Source, digest_of_users
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import REPEATED_RECIPIENTS

# The delay reasons of records that may have waited long.
_WAITED = frozenset({SEND_AT, QUIET_HOURS, PACE, DIGEST, FALLBACK})


def read_chunk(record: KafkaRecord, codec: Codec, now_ms: int) -> Chunk:
    """Return the recipients to decide about in a record of the topics send.* or recheck. Raises DeadLetter or Retry."""
    if topics.base_of(record.topic) == topics.RECHECK:
        request = since_resumed(recheck_of(codec.decode("RecheckRequested", record.value)), record)
        # Many delayed records may be due at the same time, and the tenant's queue may now be leased to another tenant,
        # so the queue is assigned again.
        queued = request.why not in _WAITED and record.header(RESUMED_AT_HEADER) is None
        return Chunk(request=request, lane=topics.lane_of(record.topic), queued=queued)
    send = SendRequested.from_avro(codec.decode("SendRequested", record.value))
    request = chunk_of(send, record)
    metrics.add(REPEATED_RECIPIENTS, len(send.to_users) - len(request.positions))
    return Chunk(
        request=request,
        lane=lane_of_send(send, record.topic),
        is_new=True,
        queued=False,
        send_at=send_at_of(send),
        send=_described(send, request, record),
        fault=fault_of_send(send, record, now_ms),
    )


def _described(send: SendRequested, request: RecheckRequested, record: KafkaRecord) -> Send:
    """Return the send as one of its records describes it."""
    source = Source.KAFKA if topics.base_of(record.topic) == topics.SEND_MONOLITH else Source.REST
    is_whole, content = send.chunk_count == 1, content_of_send(send)
    compares_users = is_whole and source is Source.KAFKA
    return described(
        send,
        SendKey(send.club_id, request.send_id),
        source,
        lane=lane_of_send(send, record.topic),
        named=request.user_ids if is_whole else (),
        content=content_of_chunk(send, content) if compares_users else content,
        recipients=digest_of_users(request.user_ids) if compares_users else None,
        chunks=send.chunk_count,
        users=len(request.user_ids) if is_whole else None,
        channels=tuple(request.channels),
    )
