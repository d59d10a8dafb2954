"""Finds the events of sends whose state changed, and produces those to which an endpoint subscribes.

Two sources name the sends: the sends whose control or expansion changes, and the counts that changed in the metrics
database. The state is the one that GET /v1/sends/{send_id} returns (masscomm.domain.send_states). An event has a
deterministic id, and is produced and then recorded before its source is left: a repeated look produces it once, and one
after a crash again, under the same id.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import Any, NamedTuple

from functions.webhook_events.send_counts import ChangedCounts, CountedSend
from masscomm.chain.produce_events import produce_events
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.chain.subscription_topic import SubscriptionSource
from masscomm.clock import Clock
from masscomm.decisions.event_matching import SubscriptionIndex
from masscomm.domain.ids import own_event_id
from masscomm.domain.records import EventOccurred
from masscomm.domain.send_states import SendState, send_state
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.time_limits import (
    SUBSCRIPTIONS_RENEWED_S,
    WEBHOOK_EVENTS_FOUND_S,
    WEBHOOK_EVENTS_RESERVE_S,
)
from masscomm.domain.webhooks import EventType
from masscomm.errors import Retry
from masscomm.http.parameters import time_of_ms
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.sends.port import Position, Sends

# The sends that are examined together, and the events that an environment remembers as recorded.
_BATCH = 200
_THREADS = 16
_REMEMBERED = 50_000
_TYPES = tuple(each for each in EventType if each is not EventType.TEST)
# Transitions by final state.
_ENDS = {
    SendState.ENDED: EventType.COMPLETED,
    SendState.CANCELLED: EventType.CANCELLED,
    SendState.FAILED: EventType.FAILED,
}


type _Find = Callable[[SendKey], CountedSend | None]


class Transition(NamedTuple):
    """A change of a send's state."""

    type: EventType
    # Identifies the change among those of the send. One that can occur several times contains its time.
    name: str
    # Increases from change to change of a send, with gaps.
    sequence: int
    # When it occurred, in milliseconds since the epoch; None: it is found first now.
    at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A send as it is now."""

    send: Send
    state: SendState
    # None: no record is counted, or the counts are unknown.
    counted: CountedSend | None
    counts_known: bool = True

    @property
    def requested_ms(self) -> int | None:
        """Return the time of the request in milliseconds since the epoch; None if it is unknown."""
        if self.counted is not None and self.counted.requested_at is not None:
            return round(self.counted.requested_at.timestamp() * 1000)
        return self.send.requested_at_ms if self.send.is_known else None

    @property
    def last_known_ms(self) -> int | None:
        """Return the latest known time of the send in milliseconds since the epoch. The send ends soon after it."""
        control = self.send.control
        moved_ms = self.send.send_at_ms if control.send_at_ms is None else control.send_at_ms
        changed_ms = (control.paused_at_ms, control.resumed_at_ms, control.cancelled_at_ms)
        return max((each for each in (self.requested_ms, moved_ms, *changed_ms) if each is not None), default=None)


@dataclass(kw_only=True)
class FindEvents:
    """The use case. Each function environment has one instance. Methods raise Retry or Stop."""

    counts: ChangedCounts
    sends: Sends
    subscriptions: SubscriptionSource
    publishing: PublishSubscriptions
    event_ids: EventIds
    codec: Codec
    producer: Producer
    clock: Clock
    # The keys of recorded events.
    _recorded: set[EventKey] = field(default_factory=set)
    # The time at which the implicit subscriptions are published again, by the monotonic clock.
    _renewed_until: float | None = None

    def sweep(self, remaining_s: Callable[[], float]) -> dict[str, int]:
        """Produce the events since the last sweep. Return the number of examined sends and of events.

        Each source has half of the invocation's time, so that neither delays the other; the next sweep continues.
        Without the metrics database, changes of sends are found, with unknown counts; then its error is raised.
        """
        half_s = remaining_s() / 2
        find: _Find | None = self.counts.find
        try:
            self.counts.end()
        except Retry:
            find = None
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="events") as pool:
            self._renew(pool)
            controlled = self._examine_controlled(pool, find, lambda: remaining_s() > half_s)
            # As is their end, for the same reason.
            end = self.counts.end()
            counted = self._examine_counted(end, lambda: remaining_s() > WEBHOOK_EVENTS_RESERVE_S)
        return {"sends": controlled[0] + counted[0], "events": controlled[1] + counted[1]}

    def _renew(self, pool: ThreadPoolExecutor) -> None:
        """Publish the implicit subscriptions at the first sweep, so that none of its events lacks an endpoint of an
        earlier version, and each SUBSCRIPTIONS_RENEWED_S.
        """
        now = self.clock.monotonic()
        if self._renewed_until is None or now >= self._renewed_until:  # guard: subscriptions.implicit
            self.publishing.publish_implicit(pool)
            self._renewed_until = now + SUBSCRIPTIONS_RENEWED_S

    def _examine_controlled(
        self, pool: ThreadPoolExecutor, find: _Find | None, has_time: Callable[[], bool]
    ) -> tuple[int, int]:
        """Produce the events of the sends whose control or expansion changes. Returns the numbers of examined sends and
        of events.
        """
        sends, events = 0, 0
        for changed in batched(self.sends.announced(), _BATCH, strict=False):
            if not has_time():
                break
            # The changes are read before the subscriptions: they have no endpoint that is not read.
            index = self.subscriptions.current()
            clubs = index.clubs_of(_TYPES)
            wanted = [each.send for each in changed if clubs is None or each.send.club_id in clubs]
            stored = self.sends.read(wanted) if wanted else {}
            known = [stored.get(key, Send(key=key)) for key in wanted]
            # The announcement stays, so that the events follow once the send can be read, or is known.
            waiting = {
                each.key
                for each in known
                if each.control.fault is not None  # guard: webhooks.unreadable_control
                or (find is None and not each.is_known)  # guard: webhooks.unknown_send
            }
            examined = [each for each in known if each.key not in waiting]
            counts = [None] * len(examined) if find is None else list(pool.map(find, [each.key for each in examined]))
            seen = list(zip(examined, counts, strict=True))
            events += self._examine(seen, index, counts_known=find is not None)
            sends += len(changed)
            list(pool.map(self.sends.forget, [each for each in changed if each.send not in waiting]))
        return sends, events

    def _examine_counted(self, end: Position, has_time: Callable[[], bool]) -> tuple[int, int]:
        """Produce the events of the sends whose counts changed before `end`. The position moves once those of a page
        are recorded. Returns the numbers of examined sends and of events.
        """
        index = self.subscriptions.current()
        clubs = index.clubs_of(_TYPES)
        sends, events = 0, 0
        while True:
            position = self.sends.position()
            found = self.counts.since(position, end, clubs, limit=_BATCH)
            stored = self.sends.read([each.send for each in found.sends]) if found.sends else {}
            seen = [(stored.get(each.send, Send(key=each.send)), each) for each in found.sends]
            for send, _ in seen:
                if send.control.fault is not None:  # It is examined again once it can be read.
                    self.sends.announce(send.key)
            events += self._examine([each for each in seen if each[0].control.fault is None], index)
            sends += len(found.sends)
            if found.position != position:
                self.sends.move(found.position)
            if not found.more or not has_time():
                return sends, events

    def _examine(
        self,
        sends: Iterable[tuple[Send, CountedSend | None]],
        index: SubscriptionIndex,
        *,
        counts_known: bool = True,
    ) -> int:
        """Produce the new events of sends, and record them. Return their number. Raises Retry if Kafka has not taken
        each of them.
        """
        now_ms = self.clock.now_ms()
        found = {
            EventKey.of(event): event
            for send, counted in sends
            for event in self._events(send, counted, now_ms, counts_known=counts_known)
            if index.match(event)
        }
        unknown = found.keys() - self._recorded
        recorded = self.event_ids.kept(unknown, now_ms // 1000).keys() if unknown else frozenset()
        self._remember(recorded)
        new = {key: event for key, event in found.items() if key in unknown and key not in recorded}
        if new:
            self._produce(new)
        return len(new)

    def _events(
        self, send: Send, counted: CountedSend | None, now_ms: int, *, counts_known: bool
    ) -> Iterator[EventOccurred]:
        """Yield the events that a send in its present state has had, except those whose record may have expired."""
        if counted is None and not send.is_known:
            return  # Only its control is left.
        state, key = send_state(send, None if counted is None else counted.counts, now_ms), send.key
        seen = _Seen(send=send, state=state, counted=counted, counts_known=counts_known)
        for transition in _transitions(seen):
            # The record of an older event has expired: it would be announced again. Counts have no time of the end.
            known_ms = seen.last_known_ms if transition.at_ms is None else transition.at_ms
            if known_ms is not None and known_ms < now_ms - WEBHOOK_EVENTS_FOUND_S * 1000:
                continue  # guard: webhooks.expired_event
            yield EventOccurred(
                event_id=own_event_id(key.club_id, key.send_id, transition.name),
                type=transition.type,
                club_id=key.club_id,
                key=key.send_id,
                occurred_at=now_ms if transition.at_ms is None else min(transition.at_ms, now_ms),
                data=json.dumps(_data(seen, transition), separators=(",", ":"), ensure_ascii=False),
            )

    def _produce(self, events: Mapping[EventKey, EventOccurred]) -> None:
        """Produce events, and record those that Kafka has acknowledged. Raises Retry."""
        errors = produce_events(events.values(), self.codec, self.producer)
        taken = [key for key in events if errors[key] is None]  # guard: webhooks.recorded_event
        self.event_ids.keep([events[key] for key in taken], self.clock.now_ms() // 1000)
        self._remember(taken)
        for error in errors.values():
            if error is not None:
                raise Retry(f"Kafka has not taken each event: {error}") from error

    def _remember(self, keys: Iterable[EventKey]) -> None:
        if len(self._recorded) >= _REMEMBERED:
            self._recorded.clear()
        self._recorded.update(keys)


def _transitions(seen: _Seen) -> Iterator[Transition]:
    """Yield the transitions that a send in this state has had, in order."""
    control, expansion = seen.send.control, seen.send.expansion
    yield Transition(EventType.ACCEPTED, EventType.ACCEPTED, 1, seen.requested_ms)
    if expansion is not None and expansion.error is None:
        yield Transition(EventType.EXPANDED, EventType.EXPANDED, 2, expansion.ended_at_ms)
    # A control has two numbers for each of its changes, so that the end is above a pause that was requested while the
    # end was not counted yet.
    number, paused_ms, resumed_ms = 2 * control.revision + 1, control.paused_at_ms, control.resumed_at_ms
    if paused_ms is not None:
        yield Transition(EventType.PAUSED, f"{EventType.PAUSED}/{paused_ms}", number, paused_ms)
    elif resumed_ms is not None:
        yield Transition(EventType.RESUMED, f"{EventType.RESUMED}/{resumed_ms}", number, resumed_ms)
    if seen.state in _ENDS:
        failed_ms = None if seen.state is not SendState.FAILED or expansion is None else expansion.ended_at_ms
        # An expansion that failed can begin again, and fail again.
        name = _ENDS[seen.state] if failed_ms is None else f"{EventType.FAILED}/{failed_ms}"
        yield Transition(_ENDS[seen.state], name, number + 3, failed_ms)


def _data(seen: _Seen, transition: Transition) -> Mapping[str, Any]:
    """Return the field `data` of an event: the send as it is counted now."""
    send, counted = seen.send, seen.counted
    counts = None if counted is None else counted.counts
    expanded = None if send.expansion is None else send.expansion.requested
    return {
        "send_id": send.key.send_id,
        "club_id": send.key.club_id,
        "reference": send.reference,
        "mode": None if send.source is not Source.REST else "test" if send.is_test else "live",
        "type": send.type if counted is None else counted.type,
        "status": seen.state,
        "sequence": transition.sequence,
        "requested_at": None if seen.requested_ms is None else time_of_ms(seen.requested_ms),
        "requested": expanded if counts is None else counts.requested,
        "duplicates": None if counted is None else counted.duplicates,
        "counts_known": seen.counts_known,
        "totals": dict(sorted(counts.by_status.items())) if counts else {} if seen.counts_known else None,
        "links": {"self": f"/v1/sends/{send.key.send_id}"},
    }
