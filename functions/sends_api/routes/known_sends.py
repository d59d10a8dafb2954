"""Finds a send that a request names: in the register, by its counts, or by both.

The register says what the send is, and whether it may go on; it needs no counts. A send whose item has expired is
known by its counts.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from masscomm.clock import Clock
from masscomm.domain.email_pauses import is_pause
from masscomm.domain.send_states import SendState, send_state
from masscomm.domain.sends import Send, SendKey
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import ChannelTotals, MetricsStore, SendTotals
from masscomm.stores.sends.port import Sends
from masscomm.texts import Text


@dataclass(frozen=True, kw_only=True)
class KnownSend:
    send: Send
    # The counts; None if no record of the send is counted yet, or if metrics do not answer.
    counted: SendTotals | None
    # Whether metrics answer.
    counts_known: bool = True

    @property
    def key(self) -> SendKey:
        return self.send.key

    def state(self, now_ms: int) -> SendState:
        """Return the send's state. Raises Retry if its item cannot be read."""
        return send_state(self.send, None if self.counted is None else self.counted.counts, now_ms)

    @property
    def totals(self) -> SendTotals:
        """Return the send's totals: before it is counted, each notification that it requests is in flight."""
        if self.counted is not None:
            return self.counted
        send = self.send
        return SendTotals(
            send_id=send.key.send_id,
            club_id=send.key.club_id,
            type=send.type or "",
            requested_at=datetime.fromtimestamp(send.requested_at_ms / 1000, UTC),
            chunk_count=None,
            chunks=0,
            channels={name: ChannelTotals(requested=send.users or 0) for name in send.channels},
            watermark=None,
        )


@dataclass(frozen=True)
class KnownSends:
    store: MetricsStore
    sends: Sends
    clock: Clock

    def find(self, send_id: str, clubs: Clubs) -> KnownSend:
        """Return a send of the caller's clubs. Raises Problem with status 404, or Retry."""
        stored = self.sends.find(send_id)
        counted, counts_known = None, True
        try:
            counted = self.store.send(send_id)
        except Retry:
            if stored is None or not stored.is_known:
                raise
            counts_known = False
        if stored is None and counted is not None:
            stored = Send(key=SendKey(counted.club_id, send_id))
        if counted is not None and stored is not None and counted.club_id != stored.key.club_id:
            counted = None  # guard: tenancy.counted_send
        # A send of another club and an unknown send have the same response, so that guessed ids reveal nothing.
        if stored is None or stored.key.club_id not in clubs:  # guard: tenancy.other_tenants_send
            raise _not_found()
        if counted is None and not is_pause(stored.key):
            # Only its control is left; that of the e-mails of a club has nothing else.
            if not stored.is_known:
                raise _not_found()
            # The counts of a small send are deleted before the item of one that was controlled.
            if counts_known and stored.is_forgotten(self.clock.now_ms()):  # guard: sends.deleted_counts
                raise _not_found()
        return KnownSend(send=stored, counted=counted, counts_known=counts_known)


def with_requested(known: KnownSend) -> SendTotals:
    """Return the totals with all notifications that the send requests, including those of chunks not counted yet.
    If all chunks are counted, the counts are complete.
    """
    totals, send = known.totals, known.send
    is_whole = totals.chunk_count is not None and totals.chunks >= totals.chunk_count
    # Of a send by Kafka in several chunks, the users are unknown.
    if not send.is_known or is_whole:
        return totals
    ended = send.expansion
    found = ended.users if ended is not None and ended.error is None else 0
    users = found if send.is_to_audience else send.users or 0
    channels = {name: totals.channels.get(name, ChannelTotals()) for name in (*totals.channels, *send.channels)}
    return replace(
        totals,
        channels={
            # guard: sends.requested_does_not_fall
            name: replace(each, requested=max(each.requested, users if name in send.channels else 0))
            for name, each in channels.items()
        },
    )


def _not_found() -> Problem:
    return Problem(404, Text.SEND_UNKNOWN.filled())
