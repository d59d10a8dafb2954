"""Claims of requests that have an Idempotency-Key: the first request with a key is executed, and its response is
returned to repeated requests.

A claim is stored before the request has any effect. It contains the id and the time of the send, so that a repeated
request completes the same send. Only one attempt at a time executes a claim; its right expires when its function must
have ended. The response is stored once the request has succeeded.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S


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


def claim_id(club_id: int, key: str, *, is_test: bool) -> str:
    """Return the id of the claim for a tenant's idempotency key. It does not reveal the key. A rehearsal with a test
    key leaves the key of the live send free.
    """
    mode = "test#" if is_test else ""  # guard: idempotency.mode_of_a_key
    return f"{club_id}#{mode}{sha256(key.encode()).hexdigest()}"  # guard: idempotency.tenants_key


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
