"""The interface of the store of digests: the open digest of each user, its members, and the closed ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from masscomm.domain.digest_members import ClosedDigest, DigestKey, Member, OpenDigest


class MemberKey(NamedTuple):
    """Names the notification of a send among those of a key."""

    digest: DigestKey
    send_id: str


class ClosedKey(NamedTuple):
    """Names a closed digest."""

    digest: DigestKey
    number: int


class DigestChange(NamedTuple):
    """The last digest of a key before and after a change, with the items that are written together with it."""

    key: DigestKey
    before: OpenDigest
    # Its revision is ignored.
    after: OpenDigest
    # The send and its member that joins; None: none does.
    joins: tuple[str, Member] | None = None
    # The decision about the digest `before` if it closes.
    closed: ClosedDigest | None = None


class Digests(Protocol):
    """Methods raise Retry (down, slow), Stop (no table, no permission) or DeadLetter (an item that can never be
    stored). Reads are consistent.
    """

    def read(self, keys: Iterable[DigestKey]) -> Mapping[DigestKey, OpenDigest]:
        """Return the last digests under distinct keys; keys without one are absent."""
        ...

    def members(self, keys: Iterable[MemberKey]) -> Mapping[MemberKey, Member]:
        """Return the members under distinct keys that exist and can be read."""
        ...

    def closed(self, keys: Iterable[ClosedKey]) -> Mapping[ClosedKey, ClosedDigest]:
        """Return the closed digests under distinct keys that exist and can be read."""
        ...

    def write(self, changes: Sequence[DigestChange]) -> list[bool]:
        """Write changes of distinct keys, each with all its items or none.

        Returns:
            For each change, whether it was written. It is not if the digest has changed since it was read.
        """
        ...
