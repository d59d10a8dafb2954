"""The control of a send: cancelled, paused, moved to another time."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from masscomm.domain.limits import SEND_ID_PATTERN
from masscomm.domain.time_limits import PAUSE_LIMIT_S
from masscomm.errors import Retry

_SEND_ID = re.compile(SEND_ID_PATTERN)


class SendKey(NamedTuple):
    """Identifies a send: the tenant and the send's id."""

    club_id: int
    send_id: str

    @property
    def is_valid(self) -> bool:
        """Return whether a send can have this id. Other ids occur only in hostile records, and are not looked up."""
        return _SEND_ID.fullmatch(self.send_id) is not None

    @property
    def text(self) -> str:
        """Return the key as text: `<club_id>#<send_id>`."""
        return f"{self.club_id}#{self.send_id}"  # guard: cancellations.tenants_send

    @classmethod
    def of_text(cls, text: str) -> "SendKey":
        """Return the key in a text. Raises ValueError."""
        club_id, _, send_id = text.partition("#")
        return cls(int(club_id), send_id)


@dataclass(frozen=True, kw_only=True)
class SendControl:
    """The control of a send. The default is the control of a send that was never controlled. Times are in milliseconds
    since the epoch.
    """

    send: SendKey
    cancelled: bool = False
    # The beginning of the present pause; None if the send is not paused.
    paused_at_ms: int | None = None
    # The end of the last pause.
    resumed_at_ms: int | None = None
    # The send_at that replaces the one in the send's records.
    send_at_ms: int | None = None
    # The number of changes of this control. Cancelling changes another item.
    revision: int = 0
    # Why the stored control cannot be read; None if it can. The send is neither continued nor ended then.
    fault: str | None = None

    def check_readable(self) -> None:
        """Raise Retry if the stored control cannot be read, except for a cancelled send, which nothing continues."""
        if self.fault is not None and not self.cancelled:  # guard: send_controls.unreadable
            raise Retry(f"the control of a send is malformed: {self.fault}")

    def is_cancelled(self, now_ms: int) -> bool:
        """Return whether the send is cancelled. A pause that has reached its limit cancels the send, too: a control is
        not kept for ever, and the send must not continue by itself. Raises Retry if the control cannot be read.
        """
        self.check_readable()
        return self.cancelled or (self.paused_at_ms is not None and now_ms >= self._pause_limit_ms)

    def is_paused(self, now_ms: int) -> bool:
        """Return whether the send is paused. Raises Retry if the control cannot be read."""
        return not self.is_cancelled(now_ms) and self.paused_at_ms is not None

    def held_until_ms(self, expires_at: int | None, now_ms: int) -> int:
        """Return the time at which a held record of the paused send is released even if the send is not resumed, so
        that it expires or is cancelled.
        """
        limit_ms = self._pause_limit_ms if expires_at is None else min(expires_at, self._pause_limit_ms)
        # The clock of the scheduler, which released the record at its limit, may be ahead of this one. The minute makes
        # the next copy another one than the released copy, which the scheduler is about to delete.
        return max(limit_ms, now_ms + 60_000)

    @property
    def _pause_limit_ms(self) -> int:
        return (self.paused_at_ms or 0) + PAUSE_LIMIT_S * 1000
