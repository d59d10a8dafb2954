"""The results of a small send: the statuses in one of its outcome records."""

from array import array
from typing import NamedTuple, Self

from masscomm.domain.notification_codes import BLOCK, BlockKey, code_of
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.sends import SendKey

# The largest number of users of a send whose results are stored.
MOST_USERS = 1_000


class SendResult(NamedTuple):
    """The results in one outcome record of a send's first chunk. Each single send makes one: a dataclass takes four
    times as long.
    """

    send: SendKey
    # The id of the outcome record. A repeated record replaces its item.
    record_id: str
    channel: str
    # The first position, and the codes (masscomm.domain.notification_codes) of it and those after it; 0: no result.
    first: int
    codes: array[int]

    @classmethod
    def of(cls, record: NotificationOutcome) -> Self | None:
        """Return the results in an outcome record; None if it cannot belong to a send that readers see at once.

        An outcome record does not have its send's number of users. The first positions of a larger send are stored in
        vain: a few items a broadcast.
        """
        send = SendKey(record.club_id, record.send_id)
        positions = record.positions
        if record.chunk_index != 0 or not positions or not send.is_valid:
            return None
        first, last = min(positions), max(positions)
        if first < 0 or last >= MOST_USERS:  # guard: results.small_sends
            return None
        known = [code_of(result.status, result.reason) for result in record.results]
        codes = array("H", bytes(2 * (last + 1 - first)))
        for position, index in zip(positions, record.result_index, strict=True):
            codes[position - first] = known[index]
        return cls(send=send, record_id=record.record_id, channel=record.channel, first=first, codes=codes)

    def blocks(self) -> dict[BlockKey, array[int]]:
        """Return the results in the job's blocks."""
        found: dict[BlockKey, array[int]] = {}
        for position, code in enumerate(self.codes, self.first):
            if code:
                number, place = divmod(position, BLOCK)
                key = (self.send.send_id, 0, self.channel, number)
                block = found.setdefault(key, array("H", bytes(2 * BLOCK)))
                block[place] = code
        return found
