"""Expands the audience of a send: first all users are found and recorded, chunk by chunk, then the chunks are produced.

A chunk is recorded before the next one is sought, and all are recorded before the first is produced. So a repetition
after a crash continues after the last recorded user, and produces the same chunks; no user is in two of them. The
number of notifications is known before the first chunk can be processed.

The users of a scheduled send are sought when it is due: until then, its record is in the delay store, also when the
send is moved or paused. Its chunks have the time at which it was due as theirs.

A record that has used its share of the invocation hands the rest on: it produces the record that continues to the end
of its own topic. So the records of other tenants in the partition wait for one share of an audience, however large.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from typing import NamedTuple

from aws_lambda_powertools import Logger

from functions.audience_expander.recurring_sends import RecurringSends
from functions.audience_expander.share import CHUNKS, Share
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import fault_of_send
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.audiences import Audience, read_audience
from masscomm.domain.categories import resolve_channels
from masscomm.domain.delays import DELAY_REASON_HEADER, PAUSED, SEND_AT
from masscomm.domain.ids import chunk_id, envelope_id
from masscomm.domain.key_limits import RECIPIENTS as RECIPIENTS_A_DAY
from masscomm.domain.key_limits import Window
from masscomm.domain.known_fields import known_fields
from masscomm.domain.lanes import Lane
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.send_content import content_of_send, described
from masscomm.domain.sends import Expansion, Send, SendKey, Source
from masscomm.domain.simulator import AUDIENCE as SIMULATORS
from masscomm.domain.simulator import RECIPIENTS as SIMULATOR_RECIPIENTS
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import EXPANSION_HANDED_ON_S
from masscomm.errors import DeadLetter, MasscommError, Retry
from masscomm.http.rate_limits import KeyUsage
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, mismatch
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECIPIENTS
from masscomm.stores.delayed_records.port import MINUTE_MS, DelayedRecord, DelayStore
from masscomm.stores.sends.port import ExpandedChunk, Progress, Sends

# The chunks that the producer holds before it is flushed, each of some 50 kB.
_CHUNKS_A_FLUSH = 50
_ERROR_CHARACTERS = 500
# No send has as many shares: a higher number is malformed.
MAX_SHARES = 1_000_000


class Found(NamedTuple):
    """Users of the audience among those that were examined since the last chunk."""

    user_ids: list[int]
    # The last examined user.
    up_to: int


@dataclass(frozen=True, kw_only=True)
class ExpandAudience:
    """The use case that expands audiences. Each function environment has one instance."""

    directory: Directory
    sends: Sends
    usage: KeyUsage
    delay_store: DelayStore
    recurring: RecurringSends
    clock: Clock
    logger: Logger
    # The chunks that one record records and produces before it hands the rest on.
    share_chunks: int = CHUNKS

    def decode(self, record: KafkaRecord, codec: Codec) -> AudienceRequested:
        """Return the send to an audience. Raises DeadLetter or Retry."""
        return AudienceRequested.from_avro(codec.decode("AudienceRequested", record.value))

    def handle(self, batch: Batch[AudienceRequested]) -> None:
        for item in batch.active():
            batch.attempt(item, partial(self._expand, batch, item))

    def dead_lettered(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Record that the send has no recipients. The letter can be replayed: then the expansion begins again."""
        if item.value.schedule is not None:  # guard: schedules.dead_letter
            return
        send = self.sends.find(item.value.send_id)
        # guard: audiences.failure_of_another_send
        if send is not None and send.expansion is None and _is_about(item.value, send):
            error, now_ms = str(why)[:_ERROR_CHARACTERS], self.clock.now_ms()
            failed = Expansion(chunks=0, users=0, requested=0, ended_at_ms=now_ms, error=error, can_begin_again=True)
            self._store_end(send, failed)

    def _expand(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested]) -> None:
        request = item.value
        if request.schedule is not None:
            self.recurring.begin(batch, item)
            return
        record = _read_send(request)
        # The request of a scheduled send may be older than a timestamp may be.
        as_due = record if request.expand_at is None else replace(record, timestamp=item.record.timestamp_ms)
        if (fault := fault_of_send(as_due, item.record, self.clock.now_ms())) is not None:
            raise fault
        send = self._registered(request, record)
        if request.expand_at is not None and request.share == 0 and self._waits(item, record, send):
            return
        # A recipient may unfollow the object until the message is published.
        # guard: follows.carried
        record = replace(record, timestamp=_begin_ms(request, send), follows=_follows(request))
        progress = self.sends.progress(request.send_id)
        if request.share < progress.share:  # guard: audiences.handed_on
            return
        share = Share(batch.remaining_s, self.share_chunks)
        if send.expansion is not None and send.expansion.can_begin_again:  # guard: audiences.replayed_letter
            send = self._store_end(send, None)
        if send.expansion is None:
            recorded = self._record_users(request, record, send, share)
            if recorded is None:
                self._hand_on(batch, item, send, progress)
                return
            send = self._end(request, record, send, *recorded)
        if send.expansion is not None and send.expansion.error is None and send.expansion.users > 0:
            self._produce(batch, item, record, send, send.expansion, progress, share)

    def _registered(self, request: AudienceRequested, record: SendRequested) -> Send:
        """Return the send of a request, which is registered if send_handler could not. Raises DeadLetter or Retry."""
        wanted = _described(request, record)
        stored = self.sends.find(request.send_id) or self.sends.register([wanted])[request.send_id]
        if isinstance(stored, MasscommError):
            raise stored
        if not stored.is_same(wanted):  # guard: audiences.registered_send
            raise DeadLetter("invalid", "the send_id belongs to a send with another content, or of another tenant")
        return stored

    def _waits(self, item: Item[AudienceRequested], record: SendRequested, send: Send) -> bool:
        """Delay a scheduled or paused send that is not expanded yet; return whether it was. Raises Retry or Stop."""
        request, control, now_ms = item.value, send.control, self.clock.now_ms()
        if send.expansion is not None or control.is_cancelled(now_ms):
            return False
        if (begin_ms := _begin_ms(request, send)) > now_ms:  # guard: audiences.of_the_moment
            # The clock of the scheduler, which released the record, may be ahead of this one. A minute makes the next
            # copy another one than the released copy, which the scheduler is about to delete.
            is_released = item.record.header(DELAY_REASON_HEADER) is not None
            # guard: audiences.released_early
            due_ms, reason = max(begin_ms, now_ms + MINUTE_MS * is_released), SEND_AT
        elif control.is_paused(now_ms):  # guard: audiences.paused_until_expanded
            due_ms, reason = control.held_until_ms(record.expires_at, now_ms), PAUSED
        else:
            return False
        value = item.record.value or b""
        delayed = DelayedRecord(
            id=envelope_id(request.send_id, value, control.revision),
            due_ms=due_ms,
            topic=topics.AUDIENCE,
            value=value,
            delay_reason=reason,
            headers=tuple(item.trace_headers),
            record_key=request.send_id,
            send=send.key,
        )
        self.delay_store.put(delayed, now_ms)
        return True

    def _record_users(
        self, request: AudienceRequested, record: SendRequested, send: Send, share: Share
    ) -> tuple[int, int] | None:
        """Record all users of the audience; return the numbers of chunks and of users, or None if the share is used
        first. Raises Retry.
        """
        last, now_ms = self.sends.last(request.send_id), self.clock.now_ms()
        # guard: audiences.cancelled_before_its_time
        if request.expand_at is not None and last is None and send.control.is_cancelled(now_ms):
            return 0, 0
        audience = _read_audience(request)
        # Users that were created before the request, or before the send was due, are found.
        self.directory.confirm(min(record.timestamp, now_ms))  # guard: audiences.confirmed_directory
        index, recorded = (-1, ExpandedChunk(user_ids=[], up_to=0, users_before=0)) if last is None else last
        for found in self._found(request, audience, recorded.up_to, share):
            index += 1
            chunk = ExpandedChunk(user_ids=found.user_ids, up_to=found.up_to, users_before=recorded.users)
            recorded = self.sends.record(send, index, chunk)
            # Another invocation may still work on a record that was redelivered, and read the directory earlier.
            if recorded != chunk:  # guard: audiences.concurrent_expansion
                raise Retry("another invocation expands the audience")
            share.chunks -= 1
            if share.is_used:  # guard: audiences.share_of_recording
                return None
        return index + 1, recorded.users

    def _end(self, request: AudienceRequested, record: SendRequested, send: Send, chunks: int, users: int) -> Send:
        """Record the end of the expansion, after the users are counted in the use of the API key. Raises Retry."""
        channels = resolve_channels(record.type, record.channels, record.club_id, record.timestamp)
        now_ms = self.clock.now_ms()
        ended = Expansion(chunks=chunks, users=users, requested=users * len(channels), ended_at_ms=now_ms)
        if (refusal := self._refusal(request, users)) is not None:  # guard: limits.audience
            ended = replace(ended, chunks=0, requested=0, error=refusal)
        send = self._store_end(send, ended)
        metrics.add(RECIPIENTS[Status.ACCEPTED], ended.requested)
        self.logger.info("audience expanded", send_id=request.send_id, users=ended.users, requested=ended.requested)
        return send

    def _store_end(self, send: Send, ended: Expansion | None) -> Send:
        """Store the end of an expansion, or that it begins again. Raises Retry."""
        changed = replace(send, expansion=ended)
        if not self.sends.end_expansion(changed, send):
            raise Retry("another request changes the send")
        return changed

    def _refusal(self, request: AudienceRequested, users: int) -> str | None:
        """Count the users in the use of the API key, once for the send. Return the reason why the send is refused; None
        if it is not. Raises Retry.
        """
        if request.key_id is None or request.recipients_a_day is None or users == 0:
            return None
        window = Window.at(
            self.clock.now_ms() // 1000, key_id=request.key_id, kind=RECIPIENTS_A_DAY, maximum=request.recipients_a_day
        )
        use = self.usage.take(window, users, send_id=request.send_id)
        if use.counted:
            return None
        remaining = max(0, window.maximum - use.used)
        return f"the key may use {window.maximum} recipients each UTC day, {remaining} remain; the audience has {users}"

    def _found(
        self, request: AudienceRequested, audience: Audience | None, after: int, share: Share
    ) -> Iterator[Found]:
        """Yield the users of the audience above `after`, in chunks. When the time of the share has passed, yield those
        that were found so far, even if there are none.
        """
        if audience is None:
            pending = [user_id for user_id in sorted(SIMULATOR_RECIPIENTS) if user_id > after]
            for few in batched(pending, request.chunk_size, strict=False):
                yield Found(list(few), few[-1])
            return
        pending = []
        for page in self.directory.members_of_club(request.club_id, audience, after=after):
            pending += page.user_ids
            while len(pending) > request.chunk_size:
                some, pending = pending[: request.chunk_size], pending[request.chunk_size :]
                yield Found(some, some[-1])
            if share.is_late:
                yield Found(pending, page.up_to)
                pending = []
        if pending:
            yield Found(pending, pending[-1])

    def _produce(
        self,
        batch: Batch[AudienceRequested],
        item: Item[AudienceRequested],
        record: SendRequested,
        send: Send,
        ended: Expansion,
        progress: Progress,
        share: Share,
    ) -> None:
        """Produce the recorded chunks that are not produced yet. An expansion that was interrupted has chunks without
        users, which are not produced.
        """
        topic, send_id = topics.in_lane(topics.SEND_API, Lane.BULK), send.key.send_id
        count = self.sends.records(send_id, ended) if progress.record_count is None else progress.record_count
        progress = replace(progress, record_count=count)
        for chunk in self.sends.chunks(send_id, progress.chunks, ended.chunks):
            if chunk.user_ids:
                chunk_record = replace(
                    record, to_users=list(chunk.user_ids), chunk_index=progress.records, chunk_count=count
                )
                batch.produce(item, topic, chunk_id(send_id, progress.records), chunk_record)
            progress = progress.after(chunk)
            share.chunks -= 1
            if share.is_used and progress.chunks < ended.chunks:  # guard: audiences.share_of_producing
                self._hand_on(batch, item, send, progress)
                return
            if progress.chunks % _CHUNKS_A_FLUSH == 0 and not self._advance(batch, item, send, progress):
                return
        self._advance(batch, item, send, progress)

    def _hand_on(
        self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], send: Send, progress: Progress
    ) -> None:
        """Produce the record that continues, behind the records of other tenants. Raises Retry."""
        request = item.value
        age_s = (self.clock.now_ms() - _begin_ms(request, send)) // 1000
        if age_s > EXPANSION_HANDED_ON_S:  # guard: audiences.age_of_the_last_share
            self._advance(batch, item, send, progress)
            raise Retry("the send is too old to be handed on: its last record would outlive the recorded chunks")
        following = replace(request, share=request.share + 1)
        batch.produce(item, topics.AUDIENCE, request.send_id, following)
        self._advance(batch, item, send, replace(progress, share=following.share))

    def _advance(
        self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], send: Send, progress: Progress
    ) -> bool:
        """Flush the producer. Record the progress, and return whether Kafka has acknowledged all records."""
        batch.producer.flush(max(0.1, batch.remaining_s()))
        if item.error is not None:  # guard: audiences.acknowledged_progress
            return False
        self.sends.advance(send, progress)
        return True


def _key(request: AudienceRequested) -> SendKey:
    return SendKey(request.club_id, request.send_id)


def _begin_ms(request: AudienceRequested, send: Send) -> int:
    """Return the time from which the users of an audience are sought, in ms since the epoch."""
    if request.expand_at is None:
        return request.timestamp
    moved_to_ms = send.control.send_at_ms
    return max(request.timestamp, request.expand_at if moved_to_ms is None else moved_to_ms)


def _described(request: AudienceRequested, record: SendRequested) -> Send:
    channels = tuple(resolve_channels(record.type, record.channels, record.club_id, record.timestamp))
    content = content_of_send(record)
    return described(
        record, _key(request), Source.REST, lane=Lane.BULK, content=content, channels=channels, is_to_audience=True
    )


def _is_about(request: AudienceRequested, send: Send) -> bool:
    """Return whether a request is about a stored send. One that cannot be read has its id at least."""
    try:
        return send.is_same(_described(request, _read_send(request)))
    except DeadLetter:
        return send.of(_key(request)) is not None and send.is_to_audience


def _read_send(request: AudienceRequested) -> SendRequested:
    """Return the send without recipients. Raises DeadLetter if it is malformed."""
    try:
        send = SendRequested.from_avro(known_fields(SendRequested, read_json(request.send, bounded=False)))
    except (InvalidJson, TypeError, AttributeError) as error:
        raise _malformed(error) from error
    if (fault := mismatch("SendRequested", send.to_avro())) is not None:
        raise _malformed(fault)
    if (send.club_id, send.send_id) != (request.club_id, request.send_id):
        raise DeadLetter("invalid", "the send is another one than that of the audience")
    if request.chunk_size < 1 or not 0 <= request.share < MAX_SHARES:
        raise _malformed(f"chunk_size {request.chunk_size}, share {request.share}")
    return send


def _read_audience(request: AudienceRequested) -> Audience | None:
    """Return the audience; None for that of a test key's send: the simulator recipients. Raises DeadLetter if it is
    malformed.
    """
    try:
        document = read_json(request.audience, bounded=False)
        audience, errors = (None, []) if document == SIMULATORS else read_audience(document)
    except (InvalidJson, TypeError, AttributeError) as error:
        raise _malformed(error) from error
    if errors:
        raise DeadLetter("invalid", f"the audience is invalid: {errors[0].path}: {errors[0].message}")
    return audience


def _follows(request: AudienceRequested) -> str | None:
    """Return the object that the users follow; None if they need not. The audience may no longer be valid when its
    chunks are produced.
    """
    with suppress(InvalidJson):
        document = read_json(request.audience, bounded=False)
        follows = document.get("follows") if isinstance(document, Mapping) else None
        return follows if isinstance(follows, str) else None
    return None


def _malformed(why: object) -> DeadLetter:
    return DeadLetter("invalid", f"the send to an audience is malformed: {why}")
