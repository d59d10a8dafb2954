"""Counts the recipients of a send that are released in each minute."""

from collections.abc import Mapping
from dataclasses import dataclass

from masscomm.clock import Clock
from masscomm.domain.pace import Pace, Taken, take
from masscomm.domain.records import RecheckRequested
from masscomm.domain.sends import Send
from masscomm.stores.sends.port import Sends, send_of

# How often the state of a pace is read again because another record has changed it meanwhile.
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class ReleaseCounter:
    """Takes places of the minutes of a send. Methods raise Retry or Stop, as Sends."""

    sends: Sends
    clock: Clock

    def take(self, request: RecheckRequested, pace: Pace, due: Mapping[int, int]) -> Taken:
        """Take places for recipients. A repetition takes further ones.

        Args:
            request: The request of the recipients.
            pace: Its pace.
            due: Position → the minute of the recipient, in the order of positions.
        """
        send = Send(key=send_of(request), requested_at_ms=request.timestamp, expires_at_ms=request.expires_at)
        for _ in range(_ROUNDS):
            before = self.sends.pace(send.key)
            taken = take(before, pace, self.clock.now_ms(), due, expires_at=request.expires_at)
            if taken.book == before or self.sends.set_pace(send, taken.book, before):
                return taken
        return Taken(before, {}, uncounted=list(due))
