"""Finds the events of sends whose state changed, and records them and their deliveries.

Two sources name the sends: the sends whose control or expansion changes, and the counts that changed in the metrics
database. The state is the one that GET /v1/sends/{send_id} returns (masscomm.domain.send_states). An event has a
deterministic id and is recorded before its source is left, so that a repeated look records it once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from typing import Any, NamedTuple

from functions.webhook_events.send_counts import ChangedCounts, CountedSend
from masscomm.clock import Clock
from masscomm.domain.send_states import SendState, send_state
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.time_limits import WEBHOOK_EVENTS_FOUND_S, WEBHOOK_EVENTS_RESERVE_S
from masscomm.domain.webhooks import Delivery, Endpoint, Event, EventType, event_id, payload
from masscomm.errors import Retry
from masscomm.http.parameters import time_of_ms
from masscomm.stores.sends.port import Announcement, Position, Sends
from masscomm.stores.webhook_deliveries.port import WebhookDeliveries
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints

# The sends that are examined together, and the ids of events that an environment remembers as recorded.
_BATCH = 200
_THREADS = 16
_REMEMBERED = 50_000
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


@dataclass(frozen=True, kw_only=True)
class FindEvents:
    """The use case. Each function environment has one instance. Methods raise Retry or Stop."""

    counts: ChangedCounts
    sends: Sends
    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    clock: Clock
    # The times of recorded events, by id.
    _recorded: dict[str, int] = field(default_factory=dict)

    def sweep(self, remaining_s: Callable[[], float]) -> dict[str, int]:
        """Record the events since the last sweep. Return the number of examined sends and of new deliveries.

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
            controlled = self._examine_controlled(pool, self._receiving(pool), find, lambda: remaining_s() > half_s)
            # The end is read before the endpoints: the changes up to it have no endpoint that is not read.
            end = self.counts.end()
            receiving = self._receiving(pool)
            counted = self._examine_counted(pool, receiving, end, lambda: remaining_s() > WEBHOOK_EVENTS_RESERVE_S)
        return {"sends": controlled[0] + counted[0], "deliveries": controlled[1] + counted[1]}

    def _receiving(self, pool: ThreadPoolExecutor) -> Mapping[int, Sequence[Endpoint]]:
        """Return the endpoints of each club that has an enabled one."""
        clubs = list(self.endpoints.clubs())
        found = zip(clubs, pool.map(self.endpoints.of_club, clubs), strict=True)
        return {club_id: each for club_id, each in found if any(one.enabled for one in each)}

    def _examine_controlled(
        self,
        pool: ThreadPoolExecutor,
        receiving: Mapping[int, Sequence[Endpoint]],
        find: _Find | None,
        has_time: Callable[[], bool],
    ) -> tuple[int, int]:
        """Record the events of the sends whose control or expansion changes. Returns the numbers of examined sends and
        of new deliveries.
        """
        sends, deliveries = 0, 0
        for some in batched(self.sends.announced(), _BATCH, strict=False):
            if not has_time():
                break
            added = pool.map(lambda each: self._examine_changed(each, receiving, find), some)
            sends, deliveries = sends + len(some), deliveries + sum(added)
        return sends, deliveries

    def _examine_changed(
        self,
        changed: Announcement,
        receiving: Mapping[int, Sequence[Endpoint]],
        find: _Find | None,
    ) -> int:
        """Record the events of a send. Return the number of new deliveries."""
        added = 0
        if changed.send.club_id in receiving:
            send = self.sends.read([changed.send]).get(changed.send, Send(key=changed.send))
            # The announcement stays, so that its events follow once the send is known.
            if send.control.fault is not None:  # guard: webhooks.unreadable_control
                return added
            if find is None and not send.is_known:  # guard: webhooks.unknown_send
                return added
            counted = None if find is None else find(changed.send)
            added = self._examine(send, counted, receiving, counts_known=find is not None)
        self.sends.forget(changed)
        return added

    def _examine_counted(
        self,
        pool: ThreadPoolExecutor,
        receiving: Mapping[int, Sequence[Endpoint]],
        end: Position,
        has_time: Callable[[], bool],
    ) -> tuple[int, int]:
        """Record the events of the sends whose counts changed before `end`. The position moves once those of a page are
        recorded. Returns the numbers of examined sends and of new deliveries.
        """
        sends, deliveries = 0, 0
        while True:
            position = self.sends.position()
            found = self.counts.since(position, end, receiving, limit=_BATCH)
            stored = self.sends.read([each.send for each in found.sends]) if found.sends else {}
            seen = [(stored.get(each.send, Send(key=each.send)), each) for each in found.sends]
            for send, _ in seen:
                if send.control.fault is not None:  # It is examined again once it can be read.
                    self.sends.announce(send.key)
            readable = [each for each in seen if each[0].control.fault is None]
            added = pool.map(lambda pair: self._examine(pair[0], pair[1], receiving), readable)
            sends, deliveries = sends + len(found.sends), deliveries + sum(added)
            if found.position != position:
                self.sends.move(found.position)
            if not found.more or not has_time():
                return sends, deliveries

    def _examine(
        self,
        send: Send,
        counted: CountedSend | None,
        receiving: Mapping[int, Sequence[Endpoint]],
        *,
        counts_known: bool = True,
    ) -> int:
        """Record the events of a send. Return the number of new deliveries."""
        if counted is None and not send.is_known:
            return 0  # Only its control is left.
        now_ms = self.clock.now_ms()
        state = send_state(send, None if counted is None else counted.counts, now_ms)
        seen = _Seen(send=send, state=state, counted=counted, counts_known=counts_known)
        added, at_ms, key = 0, 0, send.key
        for transition in _transitions(seen):
            id_ = event_id(key.club_id, key.send_id, transition.name)
            if id_ in self._recorded:
                at_ms = self._recorded[id_]
                continue
            # The record of an older event has expired: it would be announced again. Counts have no time of the end.
            known_ms = seen.last_known_ms if transition.at_ms is None else transition.at_ms
            if known_ms is not None and known_ms < now_ms - WEBHOOK_EVENTS_FOUND_S * 1000:
                continue  # guard: webhooks.expired_event
            # The deliveries of an endpoint are attempted in the order of their times.
            at_ms = max(self.clock.now_ms(), at_ms + 1)
            occurred_ms = at_ms if transition.at_ms is None else min(transition.at_ms, at_ms)
            receivers = [each for each in receiving[key.club_id] if each.receives(transition.type, occurred_ms)]
            if receivers:
                at_ms, number = self._record(id_, transition, seen, receivers, at_ms)
                added += number
        return added

    def _record(
        self, id_: str, transition: Transition, seen: _Seen, receivers: Sequence[Endpoint], at_ms: int
    ) -> tuple[int, int]:
        """Record an event and its deliveries. Return the time of the recorded event and the number of new
        deliveries.
        """
        data = _data(seen, transition)
        body = payload(id_, transition.type, time_of_ms(at_ms), data)
        event = self.deliveries.record(
            Event(id=id_, type=transition.type, club_id=seen.send.key.club_id, at_ms=at_ms, body=body)
        )
        for endpoint in receivers:
            # An event that an earlier sweep recorded is older than an endpoint that was created since then.
            if endpoint.receives(event.type, event.at_ms):
                self.deliveries.add(
                    Delivery(
                        endpoint=endpoint.key,
                        event_id=event.id,
                        event_type=event.type,
                        at_ms=event.at_ms,
                        due_ms=event.at_ms,
                    )
                )
        if len(self._recorded) >= _REMEMBERED:
            self._recorded.clear()
        self._recorded[id_] = event.at_ms
        return event.at_ms, len(receivers) if event.at_ms == at_ms else 0


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
