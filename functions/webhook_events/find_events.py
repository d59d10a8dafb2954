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
from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.domain.send_states import NO_RECIPIENTS, SendState, send_state
from masscomm.domain.time_limits import CHANGED_SENDS_SETTLE_S, WEBHOOK_EVENTS_RESERVE_S
from masscomm.domain.webhooks import Delivery, Endpoint, Event, EventType, event_id, payload
from masscomm.http.parameters import rfc3339, time_of_ms
from masscomm.stores.changed_sends import ChangedSend, ChangedSends, Position
from masscomm.stores.expansions import Expansion, Expansions
from masscomm.stores.send_controls import AcceptedSend, SendControls, accepted_of
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

    send: SendKey
    state: SendState
    counted: CountedSend | None
    control: SendControl
    expansion: Expansion | None


@dataclass(frozen=True, kw_only=True)
class FindEvents:
    """The use case. Each function environment has one instance. Methods raise Retry or Stop."""

    counts: ChangedCounts
    changed: ChangedSends
    controls: SendControls
    expansions: Expansions
    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    clock: Clock
    # The times of recorded events, by id.
    _recorded: dict[str, int] = field(default_factory=dict)

    def sweep(self, remaining_s: Callable[[], float]) -> dict[str, int]:
        """Record the events since the last sweep. Return the number of examined sends and of new deliveries.

        Each source has half of the invocation's time, so that neither delays the other; the next sweep continues.
        """
        half_s = remaining_s() / 2
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="events") as pool:
            controlled = self._examine_controlled(pool, self._receiving(pool), lambda: remaining_s() > half_s)
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
        self, pool: ThreadPoolExecutor, receiving: Mapping[int, Sequence[Endpoint]], has_time: Callable[[], bool]
    ) -> tuple[int, int]:
        """Record the events of the sends whose control or expansion changes. Returns the numbers of examined sends and
        of new deliveries.
        """
        sends, deliveries = 0, 0
        for some in batched(self.changed.all(), _BATCH, strict=False):
            if not has_time():
                break
            added = pool.map(lambda each: self._examine_changed(each, receiving), some)
            sends, deliveries = sends + len(some), deliveries + sum(added)
        return sends, deliveries

    def _examine_changed(self, changed: ChangedSend, receiving: Mapping[int, Sequence[Endpoint]]) -> int:
        """Record the events of a send. Return the number of new deliveries."""
        send, added = changed.send, 0
        began_ms = self.clock.now_ms()
        if send.club_id in receiving:
            counted, control = self.counts.find(send), self.controls.read([send])[send]
            if control.fault is not None:  # guard: webhooks.unreadable_control
                return added  # The change stays recorded, so that its events follow once the control can be read.
            added = self._examine(send, counted, control, self.expansions.find(send), receiving)
        # A request that recorded the change may not have stored it yet.
        if changed.changed_at_ms <= began_ms - CHANGED_SENDS_SETTLE_S * 1000:  # guard: webhooks.change_may_follow
            self.changed.remove(changed)
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
            position = self.changed.position()
            found = self.counts.since(position, end, receiving, limit=_BATCH)
            controls = self.controls.read([each.send for each in found.sends]) if found.sends else {}
            for each in found.sends:
                if controls[each.send].fault is not None:
                    self.changed.put(ChangedSend(send=each.send, changed_at_ms=self.clock.now_ms()))
            readable = [each for each in found.sends if controls[each.send].fault is None]
            added = pool.map(
                lambda each, of=controls: self._examine(each.send, each, of[each.send], None, receiving), readable
            )
            sends, deliveries = sends + len(found.sends), deliveries + sum(added)
            if found.position != position:
                self.changed.move(found.position)
            if not found.more or not has_time():
                return sends, deliveries

    def _examine(
        self,
        send: SendKey,
        counted: CountedSend | None,
        control: SendControl,
        expansion: Expansion | None,
        receiving: Mapping[int, Sequence[Endpoint]],
    ) -> int:
        """Record the events of a send. Return the number of new deliveries."""
        state = self._state(counted, control, expansion)
        seen = _Seen(send=send, state=state, counted=counted, control=control, expansion=expansion)
        added, at_ms = 0, 0
        for transition in _transitions(seen):
            id_ = event_id(send.club_id, send.send_id, transition.name)
            if id_ in self._recorded:
                at_ms = self._recorded[id_]
                continue
            # The deliveries of an endpoint are attempted in the order of their times.
            at_ms = max(self.clock.now_ms(), at_ms + 1)
            occurred_ms = at_ms if transition.at_ms is None else min(transition.at_ms, at_ms)
            receivers = [each for each in receiving[send.club_id] if each.receives(transition.type, occurred_ms)]
            if receivers:
                at_ms, number = self._record(id_, transition, seen, receivers, at_ms)
                added += number
        return added

    def _state(self, counted: CountedSend | None, control: SendControl, expansion: Expansion | None) -> SendState:
        now_ms = self.clock.now_ms()
        is_empty = expansion is not None and expansion.requested == 0
        return send_state(
            counted.counts if counted is not None else NO_RECIPIENTS if is_empty else None,
            cancelled=control.is_cancelled(now_ms),
            paused=control.is_paused(now_ms),
            failed=expansion is not None and expansion.error is not None,
        )

    def _record(
        self, id_: str, transition: Transition, seen: _Seen, receivers: Sequence[Endpoint], at_ms: int
    ) -> tuple[int, int]:
        """Record an event and its deliveries. Return the time of the recorded event and the number of new
        deliveries.
        """
        data = _data(seen, transition, accepted_of(self.controls, seen.send))
        body = payload(id_, transition.type, time_of_ms(at_ms), data)
        event = self.deliveries.record(
            Event(id=id_, type=transition.type, club_id=seen.send.club_id, at_ms=at_ms, body=body)
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
    counted, control = seen.counted, seen.control
    requested_at = None if counted is None else counted.requested_at
    requested_ms = None if requested_at is None else round(requested_at.timestamp() * 1000)
    yield Transition(EventType.ACCEPTED, EventType.ACCEPTED, 1, requested_ms)
    if seen.expansion is not None and seen.expansion.error is None:
        yield Transition(EventType.EXPANDED, EventType.EXPANDED, 2)
    # A control has two numbers for each of its changes, so that the end is above a pause that was requested while the
    # end was not counted yet.
    number, paused_ms, resumed_ms = 2 * control.revision + 1, control.paused_at_ms, control.resumed_at_ms
    if paused_ms is not None:
        yield Transition(EventType.PAUSED, f"{EventType.PAUSED}/{paused_ms}", number, paused_ms)
    elif resumed_ms is not None:
        yield Transition(EventType.RESUMED, f"{EventType.RESUMED}/{resumed_ms}", number, resumed_ms)
    if seen.state in _ENDS:
        yield Transition(_ENDS[seen.state], _ENDS[seen.state], number + 3)


def _data(seen: _Seen, transition: Transition, accepted: AcceptedSend | None) -> Mapping[str, Any]:
    """Return the field `data` of an event: the send as it is counted now."""
    counted, expansion = seen.counted, seen.expansion
    counts = None if counted is None else counted.counts
    requested = counts.requested if counts is not None else None if expansion is None else expansion.requested
    type_ = counted.type if counted is not None else None if accepted is None else accepted.type
    requested_at = None if counted is None or counted.requested_at is None else rfc3339(counted.requested_at)
    if requested_at is None and accepted is not None:
        requested_at = time_of_ms(accepted.accepted_at_ms)
    return {
        "send_id": seen.send.send_id,
        "club_id": seen.send.club_id,
        "reference": None if accepted is None else accepted.reference,
        "mode": None if accepted is None else "test" if accepted.is_test else "live",
        "type": type_,
        "status": seen.state,
        "sequence": transition.sequence,
        "requested_at": requested_at,
        "requested": requested,
        "duplicates": None if counted is None else counted.duplicates,
        "totals": {} if counts is None else dict(sorted(counts.by_status.items())),
        "links": {"self": f"/v1/sends/{seen.send.send_id}"},
    }
