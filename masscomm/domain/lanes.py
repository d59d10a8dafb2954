"""Lanes: topics of their own for each kind of send, so that one kind does not delay another."""

from enum import StrEnum


class Lane(StrEnum):
    """Records of two lanes never share a topic; critical ones share no function with the others either."""

    # Broadcast queues; preference_checker assigns them to tenants. BULK is also the lane of the deployed functions that
    # serve all broadcast queues and SMALL.
    BULK = "bulk"
    BULK_2 = "bulk2"
    BULK_3 = "bulk3"
    BULK_4 = "bulk4"
    # Small sends of tenants that do not request many of them: they do not wait for any broadcast.
    SMALL = "small"
    CRITICAL = "critical"


BROADCASTS = tuple(lane for lane in Lane if lane.startswith(Lane.BULK))


def shared_queue(club_id: int) -> Lane:
    """Return a tenant's broadcast queue if the queue leases are unknown.

    Tenants whose ids differ by a multiple of the number of queues share a queue.
    """
    return BROADCASTS[club_id % len(BROADCASTS)]
