"""Lanes: separate topics for each kind of send, so that one kind does not delay another."""

from collections.abc import Sequence
from enum import StrEnum


class Lane(StrEnum):
    """A lane: a kind of send with its own topics. Records of two lanes never share a topic; the critical lane also
    has its own functions.
    """

    # Broadcast queues; preference_checker assigns them to tenants. BULK is also the lane of the functions that process
    # all broadcast queues and the lane SMALL.
    BULK = "bulk"
    BULK_2 = "bulk2"
    BULK_3 = "bulk3"
    BULK_4 = "bulk4"
    # Small sends use this lane, so that they do not wait for broadcasts. A tenant's small sends above its rate use its
    # broadcast queue.
    SMALL = "small"
    CRITICAL = "critical"


# The fields of a request for a send that uses other lanes than CRITICAL.
NOT_CRITICAL = ("audience", "digest", "spread_over", "per_minute")
BROADCASTS = tuple(lane for lane in Lane if lane.startswith(Lane.BULK))


def shared_queue(club_id: int) -> Lane:
    """Return the broadcast queue that a tenant uses if the queue leases are unknown.

    Tenants whose ids differ by a multiple of the number of queues share a queue.
    """
    return BROADCASTS[club_id % len(BROADCASTS)]


def consumed_lane(lane: Lane, queues: Sequence[Lane]) -> Lane:
    """Return the lane itself, or for a broadcast queue without consumers one that has some.

    Args:
        lane: Any lane.
        queues: The broadcast queues whose topics have consumers.
    """
    if lane not in BROADCASTS or lane in queues:
        return lane
    return queues[BROADCASTS.index(lane) % len(queues)]
