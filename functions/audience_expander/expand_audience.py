"""Expands the audience of a send: first all users are found and recorded, chunk by chunk, then the chunks are produced.

A chunk is recorded before the next one is sought, and all are recorded before the first is produced. So a repetition
after a crash continues after the last recorded user, and produces the same chunks; no user is in two of them. The
number of notifications is known before the first chunk can be processed.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import batched
from typing import NamedTuple

from aws_lambda_powertools import Logger

from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import fault_of_send
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.audiences import Audience, members, read_audience
from masscomm.domain.categories import resolve_channels
from masscomm.domain.ids import chunk_id
from masscomm.domain.key_limits import RECIPIENTS as RECIPIENTS_A_DAY
from masscomm.domain.key_limits import Window
from masscomm.domain.lanes import Lane
from masscomm.domain.records import AudienceRequested, SendRequested
from masscomm.domain.send_states import SendState
from masscomm.domain.simulator import AUDIENCE as SIMULATORS
from masscomm.domain.simulator import RECIPIENTS as SIMULATOR_RECIPIENTS
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import EXPANSION_RESERVE_S
from masscomm.errors import DeadLetter, Retry
from masscomm.http.rate_limits import KeyUsage
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, mismatch
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECIPIENTS
from masscomm.stores.changed_sends import ChangedSend, ChangedSends
from masscomm.stores.expansions import ExpandedChunk, Expansion, Expansions, ListedExpansion
from masscomm.stores.send_controls import SendKey

# The chunks that the producer holds before it is flushed, each of some 50 kB.
_CHUNKS_A_FLUSH = 50
_ERROR_CHARACTERS = 500


class Found(NamedTuple):
    """Users of the audience among those that were examined since the last chunk."""

    user_ids: list[int]
    # The last examined user.
    up_to: int


@dataclass(frozen=True, kw_only=True)
class ExpandAudience:
    """The use case that expands audiences. Each function environment has one instance."""

    directory: Directory
    expansions: Expansions
    usage: KeyUsage
    clock: Clock
    logger: Logger
    # None: no change is recorded for webhooks.
    changed: ChangedSends | None = None

    def decode(self, record: KafkaRecord, codec: Codec) -> AudienceRequested:
        """Return the send to an audience. Raises DeadLetter or Retry."""
        return AudienceRequested.from_avro(codec.decode("AudienceRequested", record.value))

    def handle(self, batch: Batch[AudienceRequested]) -> None:
        for item in batch.active():
            batch.attempt(item, partial(self._expand, batch, item))

    def dead_lettered(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], why: DeadLetter) -> None:  # noqa: ARG002
        """Record that the send has no recipients."""
        ended = Expansion(send=_key(item.value), chunks=0, users=0, requested=0, error=str(why)[:_ERROR_CHARACTERS])
        ended = self.expansions.end(ended, now_ms=self.clock.now_ms())
        if ended.error is not None:
            # The send may be unreadable, and its category with it.
            self._enlist(item.value, _type_of(item.value), SendState.FAILED)

    def _expand(self, batch: Batch[AudienceRequested], item: Item[AudienceRequested]) -> None:
        request = item.value
        audience, send = _read(request)
        if (fault := fault_of_send(send, item.record, self.clock.now_ms())) is not None:
            raise fault
        ended = self.expansions.find(_key(request))
        if ended is None:
            self._enlist(request, send.type, SendState.EXPANDING)
            recorded = self._record_users(request, audience, batch.remaining_s)
            ended = self._end(request, send, *recorded)
        if ended.error is not None:
            self._enlist(request, send.type, SendState.FAILED)
        elif ended.users == 0:
            self._enlist(request, send.type, SendState.ENDED)
        else:
            self._produce(batch, item, send, ended)
            # Metrics list the send once they have counted a chunk.
            self.expansions.strike(_listed(request, send.type, SendState.EXPANDING))

    def _enlist(self, request: AudienceRequested, category: str, state: SendState) -> None:
        self.expansions.enlist(_listed(request, category, state), now_ms=self.clock.now_ms())

    def _record_users(
        self, request: AudienceRequested, audience: Audience | None, remaining_s: Callable[[], float]
    ) -> tuple[int, int]:
        """Record all users of the audience; return the numbers of chunks and of users. Raises Retry if the time is used
        up; the redelivered record continues.
        """
        # Users that were created before the request are found.
        self.directory.confirm(min(request.timestamp, self.clock.now_ms()))  # guard: audiences.confirmed_directory
        key, last = _key(request), self.expansions.last(_key(request))
        index, recorded = (-1, ExpandedChunk(user_ids=[], up_to=0, users_before=0)) if last is None else last
        for found in self._found(request, audience, recorded.up_to, remaining_s):
            index += 1
            chunk = ExpandedChunk(user_ids=found.user_ids, up_to=found.up_to, users_before=recorded.users)
            recorded = self.expansions.record(key, index, chunk, now_ms=self.clock.now_ms())
            # Another invocation may still work on a record that was redelivered, and read the directory earlier.
            if recorded != chunk:  # guard: audiences.concurrent_expansion
                raise Retry("another invocation expands the audience")
            if remaining_s() < EXPANSION_RESERVE_S:
                raise Retry(f"the audience is expanded up to user {recorded.up_to}")
        return index + 1, recorded.users

    def _end(self, request: AudienceRequested, send: SendRequested, chunks: int, users: int) -> Expansion:
        """Record the end of the expansion, after the users are counted in the use of the API key. Raises Retry."""
        channels = resolve_channels(send.type, send.channels, send.club_id)
        ended = Expansion(send=_key(request), chunks=chunks, users=users, requested=users * len(channels))
        if (refusal := self._refusal(request, users)) is not None:  # guard: limits.audience
            ended = replace(ended, chunks=0, requested=0, error=refusal)
        if self.changed is not None:
            self.changed.put(ChangedSend(send=ended.send, changed_at_ms=self.clock.now_ms()))
        ended = self.expansions.end(ended, now_ms=self.clock.now_ms())
        metrics.add(RECIPIENTS[Status.ACCEPTED], ended.requested)
        self.logger.info("audience expanded", send_id=request.send_id, users=ended.users, requested=ended.requested)
        return ended

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
        self, request: AudienceRequested, audience: Audience | None, after: int, remaining_s: Callable[[], float]
    ) -> Iterator[Found]:
        """Yield the users of the audience above `after`, in chunks. When the time is used up, yield those that were
        found so far, even if there are none.
        """
        if audience is None:
            pending = [user_id for user_id in sorted(SIMULATOR_RECIPIENTS) if user_id > after]
            for few in batched(pending, request.chunk_size, strict=False):
                yield Found(list(few), few[-1])
            return
        pending = []
        for page in self.directory.users_of_club(request.club_id, after=after):
            pending += [user.user_id for user in members(audience, page, self.directory)]
            while len(pending) > request.chunk_size:
                some, pending = pending[: request.chunk_size], pending[request.chunk_size :]
                yield Found(some, some[-1])
            if remaining_s() < EXPANSION_RESERVE_S:
                yield Found(pending, page[-1].user_id)
                pending = []
        if pending:
            yield Found(pending, pending[-1])

    def _produce(
        self, batch: Batch[AudienceRequested], item: Item[AudienceRequested], send: SendRequested, ended: Expansion
    ) -> None:
        """Produce the recorded chunks. An expansion that was interrupted has chunks without users, which are not
        produced.
        """
        topic = topics.in_lane(topics.SEND_API, Lane.BULK)
        count, index = self._count_of_records(ended), 0
        for chunk in self.expansions.chunks(ended.send, ended.chunks):
            if not chunk.user_ids:
                continue
            record = replace(send, to_users=list(chunk.user_ids), chunk_index=index, chunk_count=count)
            batch.produce(item, topic, chunk_id(ended.send.send_id, index), record)
            index += 1
            if index % _CHUNKS_A_FLUSH == 0:
                batch.producer.flush(max(0.1, batch.remaining_s()))
            if batch.remaining_s() < EXPANSION_RESERVE_S:
                raise Retry(f"{index} of {count} chunks are produced")

    def _count_of_records(self, ended: Expansion) -> int:
        if ended.chunks <= 1:
            return min(ended.chunks, ended.users)
        return sum(bool(chunk.user_ids) for chunk in self.expansions.chunks(ended.send, ended.chunks))


def _key(request: AudienceRequested) -> SendKey:
    return SendKey(request.club_id, request.send_id)


def _listed(request: AudienceRequested, category: str, state: SendState) -> ListedExpansion:
    return ListedExpansion(send=_key(request), requested_at_ms=max(0, request.timestamp), type=category, state=state)


def _type_of(request: AudienceRequested) -> str:
    """Return the category of a send to an audience; "" if the send is malformed."""
    with suppress(DeadLetter):
        return _read(request)[1].type
    return ""


def _read(request: AudienceRequested) -> tuple[Audience | None, SendRequested]:
    """Return the audience, and the send without recipients. The audience of a test key's send is None: the simulator
    recipients. Raises DeadLetter if they are malformed.
    """
    try:
        document = read_json(request.audience, bounded=False)
        audience, errors = (None, []) if document == SIMULATORS else read_audience(document)
        send = SendRequested.from_avro(read_json(request.send, bounded=False))
    except (InvalidJson, TypeError, AttributeError) as error:
        raise DeadLetter("invalid", f"the send to an audience is malformed: {error}") from error
    if (fault := mismatch("SendRequested", send.to_avro())) is not None:
        raise DeadLetter("invalid", f"the send to an audience is malformed: {fault}")
    if errors:
        raise DeadLetter("invalid", f"the audience is invalid: {errors[0].path}: {errors[0].message}")
    if (send.club_id, send.send_id) != (request.club_id, request.send_id) or request.chunk_size < 1:
        raise DeadLetter("invalid", "the send is another one than that of the audience")
    return audience, send
