"""Finds the events of sends whose state changed, and records them and their deliveries.

Two sources name the sends: the counts that changed in the metrics database, and the sends whose control or expansion
changes. The state is the one that GET /v1/sends/{send_id} returns (masscomm.domain.send_states). An event has a
deterministic id and is recorded before its source is left, so that a repeated look records it once.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from functions.webhook_events.send_counts import ChangedCounts, CountedSend
from masscomm.clock import Clock
from masscomm.domain.send_states import NO_RECIPIENTS, SendState, send_state
from masscomm.domain.time_limits import CHANGED_SENDS_SETTLE_S
from masscomm.domain.webhooks import Delivery, Endpoint, Event, EventType, event_id, payload
from masscomm.http.parameters import rfc3339, time_of_ms
from masscomm.stores.changed_sends import ChangedSends
from masscomm.stores.expansions import Expansion, Expansions
from masscomm.stores.send_controls import SendControl, SendControls, SendKey
from masscomm.stores.webhook_deliveries import WebhookDeliveries
from masscomm.stores.webhook_endpoints import WebhookEndpoints

# The sends that one look reads, and the ids of events that an environment remembers as recorded.
_BATCH = 200
_THREADS = 16
_REMEMBERED = 50_000
# Transitions by final state.
_ENDS = {
    SendState.ENDED: EventType.COMPLETED,
    SendState.CANCELLED: EventType.CANCELLED,
    SendState.FAILED: EventType.FAILED,
}


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
    _recorded: dict[str, None] = field(default_factory=dict)

    def sweep(self) -> dict[str, int]:
        """Record the events since the last sweep. Return the number of examined sends and of new deliveries."""
        endpoints = {club_id: self.endpoints.of_club(club_id) for club_id in self.endpoints.clubs()}
        receiving = {club_id: each for club_id, each in endpoints.items() if any(one.enabled for one in each)}
        sends, deliveries = self._examine_counted(receiving)
        for changed in self.changed.first(limit=_BATCH):
            sends, deliveries = sends + 1, deliveries + self._examine_if_received(changed.send, receiving)
            # A request that recorded the change may not have stored it yet.
            if changed.changed_at_ms <= self.clock.now_ms() - CHANGED_SENDS_SETTLE_S * 1000:
                self.changed.remove(changed)
        return {"sends": sends, "deliveries": deliveries}

    def _examine_counted(self, receiving: Mapping[int, Sequence[Endpoint]]) -> tuple[int, int]:
        """Record the events of the sends whose counts changed. The position moves once those of a page are recorded.
        Returns the numbers of examined sends and of new deliveries.
        """
        sends, deliveries = 0, 0
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="events") as pool:
            while True:
                position = self.changed.position()
                found = self.counts.since(position, receiving, limit=_BATCH)
                controls = self.controls.read([each.send for each in found.sends]) if found.sends else {}
                added = pool.map(
                    lambda each, of=controls: self._examine(each.send, each, of[each.send], receiving), found.sends
                )
                sends, deliveries = sends + len(found.sends), deliveries + sum(added)
                if found.position != position:
                    self.changed.move(found.position)
                if not found.more:
                    return sends, deliveries

    def _examine_if_received(self, send: SendKey, receiving: Mapping[int, Sequence[Endpoint]]) -> int:
        if send.club_id not in receiving:
            return 0
        return self._examine(send, self.counts.find(send), self.controls.read([send])[send], receiving)

    def _examine(
        self,
        send: SendKey,
        counted: CountedSend | None,
        control: SendControl,
        receiving: Mapping[int, Sequence[Endpoint]],
    ) -> int:
        """Record the events of a send. Return the number of new deliveries."""
        expansion = self.expansions.find(send) if counted is None else None
        state = self._state(counted, control, expansion)
        added = 0
        for event_type, transition in _transitions(state, control, expansion):
            receivers = [each for each in receiving[send.club_id] if each.receives(event_type)]
            id_ = event_id(send.club_id, send.send_id, transition)
            if receivers and id_ not in self._recorded:
                added += self._record(id_, event_type, _data(send, state, counted, expansion), receivers)
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

    def _record(self, id_: str, event_type: EventType, data: Mapping[str, Any], receivers: Sequence[Endpoint]) -> int:
        now_ms = self.clock.now_ms()
        event = self.deliveries.record(
            Event(
                id=id_,
                type=event_type,
                club_id=receivers[0].key.club_id,
                at_ms=now_ms,
                body=payload(event_type, time_of_ms(now_ms), data),
            )
        )
        for endpoint in receivers:
            self.deliveries.add(
                Delivery(
                    endpoint=endpoint.key,
                    event_id=event.id,
                    event_type=event.type,
                    at_ms=event.at_ms,
                    due_ms=event.at_ms,
                )
            )
        self._recorded[id_] = None
        if len(self._recorded) > _REMEMBERED:
            self._recorded.clear()
        return len(receivers) if event.at_ms == now_ms else 0


def _transitions(
    state: SendState, control: SendControl, expansion: Expansion | None
) -> Iterator[tuple[EventType, str]]:
    """Yield (type, transition) of each event that a send in this state has had. A transition that can occur several
    times contains its time.
    """
    yield EventType.ACCEPTED, EventType.ACCEPTED
    if expansion is not None and expansion.error is None:
        yield EventType.EXPANDED, EventType.EXPANDED
    if control.paused_at_ms is not None:
        yield EventType.PAUSED, f"{EventType.PAUSED}/{control.paused_at_ms}"
    elif control.resumed_at_ms is not None:
        yield EventType.RESUMED, f"{EventType.RESUMED}/{control.resumed_at_ms}"
    if state in _ENDS:
        yield _ENDS[state], _ENDS[state]


def _data(
    send: SendKey, state: SendState, counted: CountedSend | None, expansion: Expansion | None
) -> Mapping[str, Any]:
    """Return the field `data` of an event: the send as it is counted now."""
    counts = None if counted is None else counted.counts
    requested = counts.requested if counts is not None else None if expansion is None else expansion.requested
    return {
        "send_id": send.send_id,
        "club_id": send.club_id,
        "type": None if counted is None else counted.type,
        "status": state,
        "requested_at": None if counted is None else rfc3339(counted.requested_at),
        "requested": requested,
        "duplicates": None if counted is None else counted.duplicates,
        "totals": {} if counts is None else dict(sorted(counts.by_status.items())),
    }
