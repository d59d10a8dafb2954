"""The claims of idempotency keys in a dictionary, for unit tests. Thread-safe."""

from dataclasses import replace
from threading import RLock

from masscomm.aws.dynamodb import PART_BYTES, ItemRefused
from masscomm.errors import Retry
from masscomm.stores.idempotency_keys.port import Claim
from masscomm.stores.in_memory import InMemoryStore

# DynamoDB's limit of a partition key in bytes.
_LONGEST_ID = 2_048


class InMemoryIdempotencyKeys(InMemoryStore):
    """A store of claims in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, Claim] = {}

    def find(self, id_: str, *, now_ms: int) -> Claim | None:
        with self._locked(id_):
            claim = self.claims.get(id_)
            return claim if claim is not None and claim.expires_at > now_ms // 1000 else None

    def claim(self, claim: Claim, *, now_ms: int) -> Claim:
        with self._locked(claim.id):
            stored = self.claims.get(claim.id)
            if stored is None or stored.expires_at <= now_ms // 1000:
                stored = self.claims[claim.id] = claim
            return stored

    def take_over(self, claim: Claim, *, owner: str, until_ms: int) -> Claim:
        with self._locked(claim.id):
            stored = self.claims.get(claim.id)
            if stored is None:
                raise Retry("the claim has expired")
            if stored.owner == claim.owner and stored.response is None:
                stored = self.claims[claim.id] = replace(stored, owner=owner, until_ms=until_ms)
            return stored

    def complete(self, claim: Claim, response: str) -> None:
        with self._locked(claim.id):
            if len(response.encode()) > PART_BYTES:
                raise ItemRefused("too_large", "the response is larger than an item")
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                self.claims[claim.id] = replace(stored, response=response)

    def release(self, claim: Claim) -> None:
        with self._locked(claim.id):
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                self.claims[claim.id] = replace(stored, until_ms=0)

    def free(self, claim: Claim) -> None:
        with self._locked(claim.id):
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                del self.claims[claim.id]

    def _locked(self, id_: str) -> RLock:
        """Return the lock for a request with a valid key."""
        if not 0 < len(id_.encode()) <= _LONGEST_ID:
            raise ItemRefused("invalid", "the id is no key")
        return self._lock
