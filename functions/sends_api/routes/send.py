"""GET /v1/sends/{send_id}: a send's notifications by status, and whether all recipients are accounted for.

requested    requested notifications: the distinct users of each chunk, on each channel; of a send over REST all of them
             from its beginning. The number never falls, and is at least that of the notifications that have ended
queued       notifications that were written for delivery, whatever their later status is
held, scheduled, collected   deferred notifications; one that was held and then sent counts as sent only
suppressed, failed   by reason; like cancelled, expired, digested, sent, delivered and bounced, these statuses are final
in_flight    requested notifications without a final status
status       the send's state (masscomm/domain/send_states.py)
control      of a send that was paused or moved to another time
pace         of a send with a pace: how many recipients a minute, and the expected end
expansion    of a send to an audience: whether its users are still sought

A send over REST is known when it is accepted, with the notifications that it requests. A send by Kafka is a 404 until
a record of it is consumed.
cancellation   of a cancelled send: the time, and how many notifications were published before and after it
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypedDict, cast

from functions.sends_api.routes.conditions import ConditionOfChannel, conditions_of
from functions.sends_api.routes.known_sends import KnownSend, KnownSends, with_requested
from functions.sends_api.routes.results_at_once import ResultsAtOnce
from masscomm.clock import Clock
from masscomm.domain.pace import expected_end_ms, spread_text
from masscomm.domain.send_states import FINAL, SendState
from masscomm.domain.sends import Expansion, Origin, Send, SendControl, origin_of
from masscomm.domain.statuses import PUBLISHED, TERMINAL, Status
from masscomm.errors import Retry
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import ChannelTotals, MetricsStore, SendTotals
from masscomm.stores.sends.port import Sends

_BY_REASON = (Status.SUPPRESSED, Status.FAILED)
_BY_NUMBER = (
    Status.HELD,
    Status.SCHEDULED,
    Status.COLLECTED,
    Status.DIGESTED,
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
    collected: int
    """Notifications that wait in digests."""
    digested: int
    """Notifications that are part of digests, whose messages are sends of their own."""
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
    counted: int | None


class CancellationOfSend(TypedDict):
    """The cancellation of a send."""

    requested_at: str
    published_before: int | None
    """Notifications that were published before the request; null if the counts were unknown then."""
    published_since: int | None
    """Notifications that were published between the request and its effect; null if this is unknown."""
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


class PaceOfSend(TypedDict):
    """The pace of a send."""

    per_minute: int | None
    """The most recipients that are released in a minute."""
    spread_over: str | None
    """How long its recipients are spread, such as 2h."""
    expected_end: str | None
    """The end of the last minute for which recipients are planned; null: none are yet."""


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
    origin: Origin
    """What made the send: a request, or a digest, whose message it is."""
    reference: str | None
    """The requester's own id of the send, while the send is registered."""
    status: SendState
    requested_at: str | None
    send_at: str | None
    """The time to which the send was moved; otherwise its `send_at`, while the send is registered."""
    send_at_local: str | None
    """The `send_at_local` of a send that was not moved, while the send is registered."""
    chunks: Chunks
    requested: int | None
    """Null while the users of an audience are sought, and if only counts know it and do not answer."""
    duplicates: int | None
    counts_known: bool
    """False: the metrics database does not answer. All counts are null, and the status is that of the register."""
    channels: dict[str, Totals] | None
    totals: Totals | None
    conservation: Conservation | None
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    complete: bool
    """Whether each notification has a final status and is counted: the list of recipients and the metrics have it, too.
    The send's status is cancelled, ended or failed."""
    control: ControlOfSend | None
    pace: PaceOfSend | None
    """Of a send with a pace, while the send is registered."""
    fallbacks: list[ConditionOfChannel]
    """The channels that wait for another one, while the send is registered."""
    expansion: ExpansionOfSend | None
    """Of a send to an audience, while the send is registered."""
    cancellation: CancellationOfSend | None
    generated_at: str


@dataclass(frozen=True)
class SendRoute:
    store: MetricsStore
    sends: Sends
    clock: Clock
    # None: a send is answered with its counts alone.
    results: ResultsAtOnce | None = None

    def answer(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> SendBody:
        """Return the response body. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        counted = KnownSends(self.store, self.sends, self.clock).find(send_id, clubs)
        known = counted if self.results is None else self.results.added_to(counted)
        send, totals, now_ms = known.send, with_requested(known), self.clock.now_ms()
        # Sends and outcomes are read from different topics. While the metrics job catches up, it can count the end of a
        # notification before its beginning, and ok is false until then.
        ok = all(_terminal(each) <= each.requested for each in totals.channels.values())
        totals = replace(totals, channels={name: _not_below_terminal(each) for name, each in totals.channels.items()})
        together = _statuses(totals.together)
        status = known.state(now_ms)
        send_at, send_at_local = _times(send)
        counts_known = known.counts_known
        return {
            "send_id": send_id,
            "club_id": send.key.club_id,
            "type": totals.type,
            "origin": origin_of(totals.send_id),
            "reference": send.reference,
            "status": status,
            "requested_at": rfc3339(totals.requested_at),
            "send_at": send_at,
            "send_at_local": send_at_local,
            "chunks": {
                "expected": counted.totals.chunk_count,
                "counted": counted.totals.chunks if counts_known else None,
            },
            "requested": together["requested"] if _is_requested_known(known, status) else None,
            "duplicates": together["duplicates"] if counts_known else None,
            "counts_known": counts_known,
            "channels": {name: _statuses(each) for name, each in totals.channels.items()} if counts_known else None,
            "totals": together if counts_known else None,
            "conservation": {"terminal": _terminal(totals.together), "in_flight": together["in_flight"], "ok": ok}
            if counts_known
            else None,
            "watermark": rfc3339(totals.watermark),
            "complete": counted.state(now_ms) in FINAL,
            "control": _control(send.control),
            "pace": self._pace(send),
            "fallbacks": conditions_of(send),
            "expansion": _expansion(send.expansion) if send.is_to_audience else None,
            "cancellation": self._cancellation(counted, now_ms),
            "generated_at": time_of_ms(now_ms),
        }

    def _pace(self, send: Send) -> PaceOfSend | None:
        if not send.is_paced:
            return None
        ends_ms: int | None = None
        with suppress(Retry):  # The send is known without it.
            book = self.sends.pace(send.key)
            spread_ms = send.spread_over_ms if send.control.per_minute is None else None
            ends_ms = expected_end_ms(book, send.begins_at_ms, spread_ms, send.control.pace_revision)
        per_minute = send.control.per_minute or send.per_minute
        spread_over_ms = None if per_minute is not None else send.spread_over_ms
        return {
            "per_minute": per_minute,
            "spread_over": None if spread_over_ms is None else spread_text(spread_over_ms),
            "expected_end": _time(ends_ms),
        }

    def _cancellation(self, known: KnownSend, now_ms: int) -> CancellationOfSend | None:
        """Return the cancellation of a send with its counts; None if no request cancelled the send. The log of
        recipients is read once the send has ended, because this takes time for a large send.
        """
        cancelled_at_ms, before = known.send.control.cancelled_at_ms, known.send.control.published_before
        if cancelled_at_ms is None:
            return None
        at, total, since = datetime.fromtimestamp(cancelled_at_ms / 1000, UTC), published(known.totals), None
        if known.counts_known and known.state(now_ms) in FINAL:
            with suppress(Retry):  # The log of a large send may take longer than a query may.
                since = self.store.published_since(known.key.send_id, known.key.club_id, at)
        before = before if since is None else max(0, total - since)
        is_known = known.counts_known and before is not None
        return {
            "requested_at": time_of_ms(cancelled_at_ms),
            "published_before": before,
            "published_since": max(0, total - (before or 0)) if is_known else None,
            "exact": since is not None,
        }


def _is_requested_known(known: KnownSend, status: SendState) -> bool:
    send = known.send
    if status is SendState.EXPANDING or (send.is_to_audience and send.expansion is None):
        return False
    return known.counts_known or send.users is not None or send.expansion is not None


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


def _times(send: Send) -> tuple[str | None, str | None]:
    """Return the send's present send_at and send_at_local, at least one of which is None."""
    moved_to_ms = send.control.send_at_ms
    if moved_to_ms is None and send.send_at_local is not None:
        return None, send.send_at_local
    return _time(send.send_at_ms if moved_to_ms is None else moved_to_ms), None


def _control(control: SendControl) -> ControlOfSend | None:
    """Return the control of a send that was paused or moved; None for any other."""
    if control.paused_at_ms is None and control.resumed_at_ms is None and control.send_at_ms is None:
        return None
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
