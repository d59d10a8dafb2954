"""Finds a send that a request names: counted by metrics, or accepted by send_handler and not counted yet."""

from dataclasses import dataclass
from datetime import UTC, datetime

from masscomm.domain.send_controls import SendKey
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import ChannelTotals, MetricsStore, SendTotals
from masscomm.stores.send_controls import AcceptedSend, SendControls
from masscomm.texts import Text


@dataclass(frozen=True, kw_only=True)
class KnownSend:
    key: SendKey
    # The counts; None if no record of the send is counted yet.
    counted: SendTotals | None
    # The entry of send_handler; None if the send is counted.
    accepted: AcceptedSend | None = None

    @property
    def totals(self) -> SendTotals:
        """Return the send's totals: before it is counted, each notification that it requests is in flight."""
        if self.counted is not None:
            return self.counted
        accepted = self.accepted
        at_ms = 0 if accepted is None else accepted.accepted_at_ms
        channels = {} if accepted is None else dict.fromkeys(accepted.channels, accepted.users or 0)
        return SendTotals(
            send_id=self.key.send_id,
            club_id=self.key.club_id,
            type=(None if accepted is None else accepted.type) or "",
            requested_at=datetime.fromtimestamp(at_ms / 1000, UTC),
            chunk_count=None,
            chunks=0,
            channels={name: ChannelTotals(requested=users) for name, users in channels.items()},
            watermark=None,
        )


@dataclass(frozen=True)
class KnownSends:
    store: MetricsStore
    controls: SendControls

    def find(self, send_id: str, clubs: Clubs) -> KnownSend:
        """Return a send of the caller's clubs. Raises Problem with status 404, or Retry."""
        counted = self.store.send(send_id)
        accepted = self.controls.accepted(send_id) if counted is None else None
        if counted is not None:
            found = KnownSend(key=SendKey(counted.club_id, send_id), counted=counted)
        elif accepted is not None:
            found = KnownSend(key=accepted.send, counted=None, accepted=accepted)
        else:
            raise _not_found()
        # A send of another club and an unknown send have the same response, so that guessed ids reveal nothing.
        if found.key.club_id not in clubs:  # guard: tenancy.other_tenants_send
            raise _not_found()
        return found

    def read(self, send_id: str, clubs: Clubs) -> KnownSend:
        """Return a send of the caller's clubs whose category is known. Raises Problem with status 404, or Retry."""
        found = self.find(send_id, clubs)
        # An earlier version recorded what is needed to control a send.
        if found.accepted is not None and found.accepted.type is None:
            raise _not_found()
        return found


def _not_found() -> Problem:
    return Problem(404, Text.SEND_UNKNOWN.filled())
