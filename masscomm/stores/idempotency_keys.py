"""Claims of requests that have an Idempotency-Key: the first request with a key is executed, and its response is
returned to repeated requests.

A claim is stored before the request has any effect. It contains the id and the time of the send, so that a repeated
request completes the same send. Only one attempt at a time executes a claim; its right expires when its function must
have ended. The response is stored once the request has succeeded.
"""

import threading
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

from masscomm.aws.dynamodb import PART_BYTES, ItemRefused
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.errors import Retry

# DynamoDB's limit of a partition key in bytes.
_LONGEST_ID = 2_048


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A request with an idempotency key, and the attempt that executes it."""

    # The id of the claim, as claim_id computes it.
    id: str
    # The digest of the request; a different request with the same key has a different digest.
    request: str
    send_id: str
    # The time of the send, in milliseconds since the epoch.
    requested_at_ms: int
    # The number of recipients in each chunk of the send.
    chunk_size: int
    # A name that is unique to the attempt.
    owner: str
    # The time at which the attempt's function must have ended, in milliseconds since the epoch; 0 after a failure.
    until_ms: int
    # The body of the response; None until the request has succeeded.
    response: str | None = None

    @property
    def expires_at(self) -> int:
        """Return the time at which the key may be used for another request, in seconds since the epoch."""
        return -(-self.requested_at_ms // 1000) + IDEMPOTENCY_KEPT_S


def claim_id(club_id: int, key: str) -> str:
    """Return the id of the claim for a tenant's idempotency key. It does not reveal the key."""
    return f"{club_id}#{sha256(key.encode()).hexdigest()}"  # guard: idempotency.tenants_key


class IdempotencyKeys(Protocol):
    """The interface of the store of claims. Methods raise Retry (down, slow), Stop (no table, no permission) or
    ItemRefused.
    """

    def find(self, id_: str, *, now_ms: int) -> Claim | None:
        """Return the claim with this id; None if there is none, or only an expired one."""
        ...

    def claim(self, claim: Claim, *, now_ms: int) -> Claim:
        """Store the claim, unless one that has not expired is stored under its id. Return the stored claim: this one
        or the earlier one.

        If the same owner repeats the call, its own claim is returned.
        """
        ...

    def take_over(self, claim: Claim, *, owner: str, until_ms: int) -> Claim:
        """Replace the owner of a claim that has no response yet. Return the stored claim.

        If another attempt was first, the stored claim has another owner or a response. The same owner may repeat the
        call.
        """
        ...

    def complete(self, claim: Claim, response: str) -> None:
        """Store the response. The call has no effect if another attempt has taken over the claim."""
        ...

    def release(self, claim: Claim) -> None:
        """End the attempt without a response. The call has no effect if another attempt has taken over the claim."""
        ...

    def free(self, claim: Claim) -> None:
        """End the claim, so that its key may be used for another request. The call has no effect if another attempt
        has taken over the claim.
        """
        ...


class InMemoryIdempotencyKeys:
    """A store of claims in a dictionary, for unit tests. Thread-safe."""

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
