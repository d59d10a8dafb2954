"""The claims of idempotency keys in a dictionary, for unit tests. Thread-safe."""

import threading
from dataclasses import replace

from masscomm.aws.dynamodb import PART_BYTES, ItemRefused
from masscomm.errors import Retry
from masscomm.stores.idempotency_keys.port import Claim

# DynamoDB's limit of a partition key in bytes.
_LONGEST_ID = 2_048


class InMemoryIdempotencyKeys:
    """A store of claims in a dictionary."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        # The errors to raise, by the name of the method.
        self.failing: dict[str, BaseException] = {}
        # The number of calls.
        self.calls = 0
        self._lock = threading.Lock()

    def find(self, id_: str, *, now_ms: int) -> Claim | None:
        with self._answer("find", id_):
            claim = self.claims.get(id_)
            return claim if claim is not None and claim.expires_at > now_ms // 1000 else None

    def claim(self, claim: Claim, *, now_ms: int) -> Claim:
        with self._answer("claim", claim.id):
            stored = self.claims.get(claim.id)
            if stored is None or stored.expires_at <= now_ms // 1000:
                stored = self.claims[claim.id] = claim
            return stored

    def take_over(self, claim: Claim, *, owner: str, until_ms: int) -> Claim:
        with self._answer("take_over", claim.id):
            stored = self.claims.get(claim.id)
            if stored is None:
                raise Retry("the claim has expired")
            if stored.owner == claim.owner and stored.response is None:
                stored = self.claims[claim.id] = replace(stored, owner=owner, until_ms=until_ms)
            return stored

    def complete(self, claim: Claim, response: str) -> None:
        with self._answer("complete", claim.id):
            if len(response.encode()) > PART_BYTES:
                raise ItemRefused("too_large", "the response is larger than an item")
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                self.claims[claim.id] = replace(stored, response=response)

    def release(self, claim: Claim) -> None:
        with self._answer("release", claim.id):
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                self.claims[claim.id] = replace(stored, until_ms=0)

    def free(self, claim: Claim) -> None:
        with self._answer("free", claim.id):
            stored = self.claims.get(claim.id)
            if stored is not None and stored.owner == claim.owner:
                del self.claims[claim.id]

    def _answer(self, call: str, id_: str) -> threading.Lock:
        self.calls += 1
        if call in self.failing:
            raise self.failing[call]
        if not 0 < len(id_.encode()) <= _LONGEST_ID:
            raise ItemRefused("invalid", "the id is no key")
        return self._lock
