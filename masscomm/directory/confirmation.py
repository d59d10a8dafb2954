"""Waits, within the time of one invocation, until the directory (the copy of the monolith's tables in OpenSearch) is
complete up to a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from masscomm.directory.port import Directory
from masscomm.domain.time_limits import DIRECTORY_WAIT_S
from masscomm.errors import Retry


@dataclass(kw_only=True)
class Confirmation:
    """The confirmation that the directory is complete, for one batch: its records share one wait if the directory is
    behind.
    """

    directory: Directory
    # Returns the remaining seconds of the invocation.
    remaining_s: Callable[[], float]
    # The earliest time up to which the directory could not be confirmed as complete, and the error; None before a
    # failure.
    _behind: tuple[int, Retry] | None = field(default=None, init=False)

    def confirm(self, ts_ms: int) -> None:
        """Return once the directory is complete up to ts_ms.

        Raises:
            Retry: The directory is behind, or too little time remains to wait for it.
        """
        if self._behind is not None and ts_ms >= self._behind[0]:
            raise self._behind[1]
        if not self.directory.is_confirmed(ts_ms) and self.remaining_s() < DIRECTORY_WAIT_S:
            raise Retry("the invocation's time is used up before the directory could be waited for")
        try:
            self.directory.confirm(ts_ms)
        except Retry as error:
            self._behind = (ts_ms, error)
            raise
