"""The results of small sends, until the metrics job has counted them: each outcome record has an item below its send,
in the register's table.

The job's counts are the truth. A result is stored with one attempt and may be missing; readers see it seconds earlier.
"""

from collections.abc import Sequence
from typing import Protocol

from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import SendKey

# The variable that switches results off, and its values.
SETTING, SETTINGS = "SEND_RESULTS", ("on", "off")


class SendResults(Protocol):
    """The interface of the store. Methods raise Retry (down, slow), Stop (no table, no permission) or DeadLetter (an
    item that can never be stored).
    """

    def put(self, results: Sequence[SendResult]) -> None:
        """Store results, the later one of two with the same send and id. The time of each is the present one."""
        ...

    def since(self, send: SendKey, at_ms: int | None) -> Sequence[SendResult]:
        """Return a send's results that were stored at a time or later; None: all that are kept."""
        ...
