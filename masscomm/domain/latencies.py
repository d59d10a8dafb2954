"""Latencies: how long notifications took, counted in fixed bins.

A latency is the time from the moment at which a notification was due until it had a status. It was due when its send
was requested or, if that is later, at the send's own time or at the end of what held it, such as quiet hours, a pace, a
pause or the window of a digest.

The bounds of the bins grow by the same factor and never change, so counts of bins can be added: over lanes, minutes,
categories and channels. A quantile of a sum is known up to ERROR.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import log

from masscomm.domain.statuses import Status

# The statuses whose latencies are counted: from due until the provider had accepted the message, or had delivered it.
MEASURED = (Status.SENT.value, Status.DELIVERED.value)
# Each bin ends at this multiple of its beginning.
_FACTOR = 1.09
# The largest relative error of a quantile: half a bin, and three significant digits.
ERROR = 0.05
# The bin of all latencies above some 60 days, which is longer than any notification is tried.
LAST_BIN = 260


def bin_of(latency_ms: int) -> int:
    """Return the bin of a latency: 0 below 1 ms, also for a negative one, which is due to clocks that differ."""
    if latency_ms < 1:
        return 0
    return min(LAST_BIN, 1 + int(log(latency_ms) / log(_FACTOR)))


def value_of(number: int) -> float:
    """Return the latency in ms that stands for a bin, with three significant digits."""
    return 0.0 if number == 0 else float(f"{_FACTOR ** (number - 0.5):.3g}")


def quantiles(counts: Mapping[int, int], shares: Sequence[float]) -> list[float]:
    """Return, for each share of the notifications, the latency in ms that this share did not exceed.

    Args:
        counts: The number of notifications in each bin; at least one.
        shares: Such as 0.95 for the 95th percentile.
    """
    bins = sorted(counts)
    sums = list(accumulate(counts[number] for number in bins))
    # The share's last notification is the nth, and n is at least 1.
    return [value_of(bins[bisect_left(sums, max(1.0, share * sums[-1]))]) for share in shares]
