"""Follows: a user follows an object, such as team:42, by a row of the monolith's table of memberships.

A send for the followers of an object names it. Each recipient must still follow it when the message is published.
"""

import re
from typing import NamedTuple

from masscomm.domain.categories import category
from masscomm.domain.limits import FOLLOWS_PATTERN
from masscomm.domain.preferences import USER, Decision
from masscomm.domain.row_ids import SEPARATOR
from masscomm.domain.source_tables import MEMBERSHIPS, is_mapped
from masscomm.domain.statuses import Reason, Status


class Membership(NamedTuple):
    """A row of the directory's table memberships."""

    # The tenant in the row; None: the table has none, and the user's own tenant counts.
    club_id: int | None = None
    # Whether the user has opted out of notifications about the object.
    muted: bool = False


def membership_id(user_id: int, follows: str) -> str:
    """Return the id of the document for a user and an object."""
    return f"{user_id}{SEPARATOR}{follows}"


def kind_and_object(follows: str) -> tuple[str, str]:
    """Return the kind and the object that a text names."""
    kind, _, name = follows.partition(SEPARATOR)
    return kind, name


def follows_problem(follows: str | None) -> str | None:
    """Return why a send cannot be for the followers of an object; None if it can."""
    if follows is None:
        return None
    if not re.fullmatch(FOLLOWS_PATTERN, follows):
        return "follows is not KIND:OBJECT, such as team:42"
    return None if is_mapped(MEMBERSHIPS) else "follows needs the table memberships, which is not mapped"


def decide_by_membership(
    membership: Membership | None, *, follows: str, club_id: int, type: str, at_ms: int
) -> Decision | None:
    """Return the decision for a user of the club as a follower of an object; None if it excludes nothing.

    Args:
        membership: The row; None if it is confirmed as missing.
    """
    rule = f"follows:{follows}"
    if (
        membership is None or membership.club_id not in (None, club_id)  # guard: tenancy.membership
    ):
        return Decision(Status.SUPPRESSED, Reason.NOT_FOLLOWING, "directory", rule)
    if membership.muted and not category(type, club_id, at_ms).mandatory:  # guard: follows.muted
        return Decision(Status.SUPPRESSED, Reason.OPTED_OUT, USER, rule)
    return None
