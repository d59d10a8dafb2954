"""The digests of a user: the open one, its members, and the decision at the closing of one."""

from collections.abc import Mapping
from typing import NamedTuple

# The entry in `left_out` of a member whose send was paused: it joins another digest.
PAUSED = "paused"


class DigestKey(NamedTuple):
    """Names the digests of one user on one channel that follow each other."""

    club_id: int
    user_id: int
    channel: str
    # The category and the value of the digest's variable (masscomm.domain.digests.Digest.key_of).
    key: str


class OpenDigest(NamedTuple):
    """The last digest of a key. A key without one has revision 0."""

    # Increases with each digest of the key.
    number: int = 0
    # The time at which it closes, in milliseconds since the epoch.
    due_ms: int = 0
    # The sends of its members, in the order in which they were collected.
    members: tuple[str, ...] = ()
    # Whether it collects no further members, because it is closed.
    is_closed: bool = True
    # Increases with each change.
    revision: int = 0
    # Whether the item cannot be read. Its user's notifications go out alone until the item expires.
    is_damaged: bool = False


class Member(NamedTuple):
    """A notification that is or was collected."""

    # The number of its digest.
    number: int
    # The variables that the template may see.
    data: Mapping[str, str]
    # The time after which it is not published, in milliseconds since the epoch.
    expires_at_ms: int | None = None
    # The object to whose followers its send goes (masscomm.domain.memberships).
    follows: str | None = None


class ClosedDigest(NamedTuple):
    """The decision at the closing of a digest."""

    # The time, in milliseconds since the epoch.
    closed_ms: int
    # The send of the member whose record produces the message; None: no member is in the message.
    sender: str | None
    # What the template sees of the members (masscomm.domain.digests.contents_of).
    contents: str
    # Send → the status of a member that is not in the message: cancelled, expired, or PAUSED.
    left_out: Mapping[str, str]
    # The object of all members that are in the message; None: they have none, or several.
    follows: str | None = None
