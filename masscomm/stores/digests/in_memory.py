"""Digests in dictionaries, for unit tests. Thread-safe."""

from collections.abc import Iterable, Mapping, Sequence

from masscomm.domain.digest_members import ClosedDigest, DigestKey, Member, OpenDigest
from masscomm.stores.digests.port import ClosedKey, DigestChange, MemberKey
from masscomm.stores.in_memory import InMemoryStore


class InMemoryDigests(InMemoryStore):
    """The store in dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: dict[DigestKey, OpenDigest] = {}
        self.of_members: dict[MemberKey, Member] = {}
        self.of_closed: dict[ClosedKey, ClosedDigest] = {}

    def read(self, keys: Iterable[DigestKey]) -> Mapping[DigestKey, OpenDigest]:
        with self._lock:
            return {key: self.heads[key] for key in keys if key in self.heads}

    def members(self, keys: Iterable[MemberKey]) -> Mapping[MemberKey, Member]:
        with self._lock:
            return {key: self.of_members[key] for key in keys if key in self.of_members}

    def closed(self, keys: Iterable[ClosedKey]) -> Mapping[ClosedKey, ClosedDigest]:
        with self._lock:
            return {key: self.of_closed[key] for key in keys if key in self.of_closed}

    def write(self, changes: Sequence[DigestChange]) -> list[bool]:
        return [self._write(change) for change in changes]

    def _write(self, change: DigestChange) -> bool:
        with self._lock:
            if self.heads.get(change.key, OpenDigest()).revision != change.before.revision:
                return False
            self.heads[change.key] = change.after._replace(revision=change.before.revision + 1)
            if change.joins is not None:
                send_id, member = change.joins
                self.of_members[MemberKey(change.key, send_id)] = member
            if change.closed is not None:
                self.of_closed[ClosedKey(change.key, change.before.number)] = change.closed
            return True
