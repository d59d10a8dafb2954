"""Lanes: which records are served apart from which others."""

from enum import StrEnum


class Lane(StrEnum):
    """Records of two lanes never share a topic; critical ones share no function with the others either."""

    # Broadcasts, in queues: which one is a tenant's, the preference_checker says. BULK is also what functions are
    # deployed in that serve all of these, and SMALL.
    BULK = "bulk"
    BULK_2 = "bulk2"
    BULK_3 = "bulk3"
    BULK_4 = "bulk4"
    # Sends to few, of tenants who do not send many of those: they stand behind nobody's broadcast.
    SMALL = "small"
    CRITICAL = "critical"


BROADCASTS = tuple(lane for lane in Lane if lane.startswith(Lane.BULK))


def shared_queue(club_id: int) -> Lane:
    """A tenant's queue of broadcasts where nothing is known of who has which: tenants whose ids differ by the number of
    queues share one."""
    return BROADCASTS[club_id % len(BROADCASTS)]
