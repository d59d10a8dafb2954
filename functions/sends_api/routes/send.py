"""GET /v1/sends/{send_id}: a send's notifications by status, and whether all recipients are accounted for.

requested    requested notifications: the distinct users of each chunk, on each channel; of a send over REST all of them
             from its beginning. The number never falls, and is at least that of the notifications that have ended
queued       notifications that were written for delivery, whatever their later status is
held, scheduled   deferred notifications; one that was held and then sent counts as sent only
suppressed, failed   by reason; like cancelled, expired, sent, delivered and bounced, these statuses are final
in_flight    requested notifications without a final status
status       the send's state (masscomm/domain/send_states.py)
control      of a send that was paused or moved to another time
expansion    of a send to an audience: whether its users are still sought

A send by REST is known when it is accepted, with the notifications that it requests. A send by Kafka is a 404 until a
record of it is counted.
cancellation   of a cancelled send: the time, and how many notifications were published before and after it
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypedDict, cast

from functions.sends_api.routes.known_sends import KnownSends
from masscomm.clock import Clock
from masscomm.domain.send_controls import SendControl
from masscomm.domain.send_states import FINAL, NO_RECIPIENTS, SendState, send_state
from masscomm.domain.statuses import PUBLISHED, TERMINAL, Status
from masscomm.errors import Retry
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.tenant import Clubs
from masscomm.stores.expansions import Expansion, Expansions
from masscomm.stores.metrics.port import ChannelTotals, MetricsStore, SendTotals
from masscomm.stores.send_controls import AcceptedSend, Cancellation, SendControls, accepted_of

_BY_REASON = (Status.SUPPRESSED, Status.FAILED)
_BY_NUMBER = (
    Status.HELD,
    Status.SCHEDULED,
    Status.CANCELLED,
    Status.EXPIRED,
    Status.SENT,
    Status.DELIVERED,
    Status.BOUNCED,
)
_NO_REASON = "none"


class Totals(TypedDict):
    """Numbers of notifications by status."""

    requested: int
    """0 while the users of an audience are sought."""
    duplicates: int
    """Users that were named more than once in a chunk; they are not counted in `requested`."""
    queued: int
    """Notifications that were written for delivery, whatever their later status is."""
    suppressed: dict[str, int]
    """By reason."""
    failed: dict[str, int]
    """By reason."""
    held: int
    """Notifications that wait for the end of quiet hours."""
    scheduled: int
    cancelled: int
    expired: int
    sent: int
    delivered: int
    bounced: int
    in_flight: int
    """Requested notifications without a final status."""


class Conservation(TypedDict):
    """Whether all recipients are accounted for."""

    terminal: int
    """Notifications with a final status."""
    in_flight: int
    ok: bool
    """False while the metrics job has counted the end of a notification before its beginning. `requested` then includes
    it already."""


class Chunks(TypedDict):
    """Numbers of the send's chunks."""

    expected: int | None
    counted: int


class CancellationOfSend(TypedDict):
    """The cancellation of a send."""

    requested_at: str
    published_before: int
    """Notifications that were published before the request."""
    published_since: int
    """Notifications that were published between the request and its effect."""
    exact: bool
    """Whether the two numbers follow from the times of the outcomes. Otherwise they follow from the counts at the
    request, which are seconds behind: `published_since` is an upper bound."""


class ControlOfSend(TypedDict):
    """The control of a send."""

    paused_at: str | None
    """The beginning of the present pause."""
    resumed_at: str | None
    """The end of the last pause."""
    send_at: str | None
    """The time to which the send was moved."""


class ExpansionOfSend(TypedDict):
    """The expansion of an audience."""

    status: Literal["expanding", "ended", "failed"]
    users: int | None
    """The users of the audience; null until they are all found."""
    requested: int | None
    """Their notifications."""
    error: str | None


class SendBody(TypedDict):
    """A send with its notifications by status."""

    send_id: str
    club_id: int
    type: str
    reference: str | None
    """The caller's own id of a send over REST, for eight days after its request or its `send_at`."""
    status: SendState
    requested_at: str | None
    send_at: str | None
    """The time to which the send was moved; otherwise the `send_at` of a send over REST, for eight days after it."""
    send_at_local: str | None
    """The `send_at_local` of a send over REST that was not moved, for eight days after it."""
    chunks: Chunks
    requested: int | None
    """Null while the users of an audience are sought."""
    duplicates: int
    channels: dict[str, Totals]
    totals: Totals
    conservation: Conservation
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    complete: bool
    """Whether each notification has a final status: the send's status is cancelled, ended or failed."""
    control: ControlOfSend | None
    expansion: ExpansionOfSend | None
    """Of a send to an audience, for eight days after its request or its `send_at`."""
    cancellation: CancellationOfSend | None
    generated_at: str


@dataclass(frozen=True)
class SendRoute:
    store: MetricsStore
    controls: SendControls
    clock: Clock
    # None: no send has an audience.
    expansions: Expansions | None = None

    @property
    def known_sends(self) -> KnownSends:
        return KnownSends(self.store, self.controls)

    def answer(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> SendBody:
        """Return the response body. Raises Problem (400 for any parameter, 404) or Retry."""
        read = Reader(parameters, ())
        if read.errors:
            raise read.problem()
        send = self.known_sends.read(send_id, clubs)
        accepted = send.accepted or accepted_of(self.controls, send.key)
        control = self.controls.read([send.key])[send.key]
        ended = None
        if accepted is not None and accepted.is_to_audience and self.expansions is not None:
            ended = self.expansions.find(send.key)
        # A pause that has reached its limit has no cancellation of its own.
        cancellation = self.controls.find(send.key) if control.cancelled else None
        body = self._body(_with_requested(send.totals, accepted, ended), accepted, control, cancellation)
        if accepted is None or not accepted.is_to_audience or (ended is None and send.counted is not None):
            return body
        body = {**body, "expansion": _expansion(ended)}
        return body if send.counted is not None else self._uncounted(body, control, ended)

    def _uncounted(self, body: SendBody, control: SendControl, ended: Expansion | None) -> SendBody:
        """Return the body of a send to an audience of which no chunk is counted."""
        now_ms = self.clock.now_ms()
        status = send_state(
            NO_RECIPIENTS if ended is not None and ended.requested == 0 else None,
            cancelled=control.is_cancelled(now_ms),
            paused=control.is_paused(now_ms),
            expanding=ended is None,
            failed=ended is not None and ended.error is not None,
        )
        requested = None if ended is None else body["requested"]
        return {**body, "requested": requested, "status": status, "complete": status in FINAL}

    def _body(
        self,
        send: SendTotals,
        accepted: AcceptedSend | None,
        control: SendControl,
        cancellation: Cancellation | None,
    ) -> SendBody:
        # Sends and outcomes are read from different topics. While the metrics job catches up, it can count the end of a
        # notification before its beginning, and ok is false until then.
        ok = all(_terminal(each) <= each.requested for each in send.channels.values())
        send = replace(send, channels={name: _not_below_terminal(each) for name, each in send.channels.items()})
        channels = {name: _statuses(totals) for name, totals in send.channels.items()}
        totals = _statuses(send.together)
        requested, terminal = totals["requested"], _terminal(send.together)
        send_at, send_at_local = _times(accepted, control)
        now_ms = self.clock.now_ms()
        status = send_state(send.counts, cancelled=control.is_cancelled(now_ms), paused=control.is_paused(now_ms))
        return {
            "send_id": send.send_id,
            "club_id": send.club_id,
            "type": send.type,
            "reference": None if accepted is None else accepted.reference,
            "status": status,
            "requested_at": rfc3339(send.requested_at),
            "send_at": send_at,
            "send_at_local": send_at_local,
            "chunks": {"expected": send.chunk_count, "counted": send.chunks},
            "requested": requested,
            "duplicates": totals["duplicates"],
            "channels": channels,
            "totals": totals,
            "conservation": {"terminal": terminal, "in_flight": totals["in_flight"], "ok": ok},
            "watermark": rfc3339(send.watermark),
            "complete": status in FINAL,
            "control": None if control.revision == 0 else _control(control),
            "expansion": None,
            "cancellation": None if cancellation is None else self._cancellation(send, cancellation, status),
            "generated_at": time_of_ms(now_ms),
        }

    def _cancellation(self, send: SendTotals, cancellation: Cancellation, status: SendState) -> CancellationOfSend:
        """Return the cancellation. The log of recipients is read once the send has ended, because this takes time for
        a large send.
        """
        at, total = datetime.fromtimestamp(cancellation.requested_at_ms / 1000, UTC), published(send)
        since = None
        if status in FINAL:
            with suppress(Retry):  # The log of a large send may take longer than a query may.
                since = self.store.published_since(send.send_id, send.club_id, at)
        before = cancellation.published_before if since is None else max(0, total - since)
        return {
            "requested_at": time_of_ms(cancellation.requested_at_ms),
            "published_before": before,
            "published_since": max(0, total - before),
            "exact": since is not None,
        }


def _with_requested(send: SendTotals, accepted: AcceptedSend | None, ended: Expansion | None) -> SendTotals:
    """Return the totals with all notifications that the send requests, also those of chunks that are not counted yet.
    If all chunks are counted, the counts are complete.
    """
    is_whole = send.chunk_count is not None and send.chunks >= send.chunk_count
    if accepted is None or is_whole:
        return send
    found = ended.users if ended is not None and ended.error is None else 0
    users = found if accepted.is_to_audience else accepted.users or 0
    channels = {name: send.channels.get(name, ChannelTotals()) for name in (*send.channels, *accepted.channels)}
    return replace(
        send,
        channels={
            # guard: sends.requested_does_not_fall
            name: replace(each, requested=max(each.requested, users if name in accepted.channels else 0))
            for name, each in channels.items()
        },
    )


def _not_below_terminal(totals: ChannelTotals) -> ChannelTotals:
    # guard: sends.ended_is_requested
    return replace(totals, requested=max(totals.requested, _terminal(totals)))


def _expansion(ended: Expansion | None) -> ExpansionOfSend:
    return {
        "status": "expanding" if ended is None else "ended" if ended.error is None else "failed",
        "users": None if ended is None else ended.users,
        "requested": None if ended is None else ended.requested,
        "error": None if ended is None else ended.error,
    }


def _times(accepted: AcceptedSend | None, control: SendControl) -> tuple[str | None, str | None]:
    """Return the send's present send_at and send_at_local, at least one of which is None."""
    if control.send_at_ms is not None or accepted is None:
        return _time(control.send_at_ms), None
    if accepted.send_at_local is not None:
        return None, accepted.send_at_local
    return _time(accepted.send_at_ms), None


def _control(control: SendControl) -> ControlOfSend:
    return {
        "paused_at": _time(control.paused_at_ms),
        "resumed_at": _time(control.resumed_at_ms),
        "send_at": _time(control.send_at_ms),
    }


def published(send: SendTotals) -> int:
    """Return the number of the send's notifications that a provider has accepted."""
    return sum(send.counts.by_status.get(status, 0) for status in PUBLISHED)


def _statuses(totals: ChannelTotals) -> Totals:
    by_number = {status.value: sum(totals.by_status.get(status, {}).values()) for status in _BY_NUMBER}
    by_reason: dict[str, dict[str, int]] = {status.value: Counter() for status in _BY_REASON}
    for status, counts in by_reason.items():
        for reason, n in totals.by_status.get(status, {}).items():
            counts[reason or _NO_REASON] += n
    numbers = {
        "requested": totals.requested,
        "duplicates": totals.duplicates,
        "queued": totals.queued,
        **by_reason,
        **by_number,
        "in_flight": max(0, totals.requested - _terminal(totals)),
    }
    return cast("Totals", numbers)


def _terminal(totals: ChannelTotals) -> int:
    return sum(sum(totals.by_status.get(status, {}).values()) for status in TERMINAL)


def _time(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else time_of_ms(moment_ms)
