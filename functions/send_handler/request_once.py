"""Executes a request once for each Idempotency-Key: a repeated request completes the same send, or gets the stored
response.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from functions.send_handler.send_records import SendIdentity
from masscomm.clock import Clock
from masscomm.errors import MasscommError
from masscomm.http.idempotency import other_request
from masscomm.http.problem import Problem
from masscomm.observability import logs
from masscomm.stores.idempotency_keys.port import Claim, IdempotencyKeys, claim_id
from masscomm.texts import Text

logger = logs.logger("send_handler")


class PartlyExecuted(Problem):
    """A part of the request may have had an effect. Its repetition completes the same send."""


@dataclass(frozen=True, kw_only=True)
class KeyedRequest:
    club_id: int
    key: str
    # Whether it was requested with a test key.
    is_test: bool
    # The digest of the request (masscomm.http.idempotency.digest_of).
    digest: str
    # The milliseconds within which Lambda certainly ends the attempt.
    remaining_ms: int


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt to execute a request."""

    # The identity of the first attempt.
    identity: SendIdentity
    # The claim of the key; None: the request has none.
    claim: Claim | None = None
    is_first: bool = True

    @property
    def response(self) -> str | None:
        """Return the body of the stored response, as JSON; None if this attempt executes the request."""
        return None if self.claim is None else self.claim.response


@dataclass(frozen=True, kw_only=True)
class RequestOnce:
    """The use case for requests with an idempotency key. Each function environment has one instance."""

    keys: IdempotencyKeys
    clock: Clock

    def begin(self, keyed: KeyedRequest | None, new: SendIdentity, refused: Problem | None = None) -> Attempt:
        """Claim the key of a request; a request without a key has a new identity at each attempt.

        Args:
            keyed: The request; None: it has no key.
            new: The identity of a new request.
            refused: The problem of a request that may no longer begin. The times in one that was claimed before were
                valid then, and may have passed since.

        Raises Problem with status 422 (the key belongs to another request) or 409 (an attempt is in progress), the
        given problem, and Retry or Stop from the store.
        """
        if keyed is None:
            if refused is not None:
                raise refused
            return Attempt(identity=new)
        now_ms, owner = self.clock.now_ms(), str(uuid4())
        until_ms = now_ms + keyed.remaining_ms
        stored = self._stored(keyed, new, refused, owner, now_ms)
        if stored.request != keyed.digest:  # guard: idempotency.other_request
            raise other_request()
        is_first = stored.owner == owner
        if not is_first and stored.response is None and stored.until_ms <= now_ms:
            stored = self.keys.take_over(stored, owner=owner, until_ms=until_ms)
        if stored.owner != owner and stored.response is None:  # guard: idempotency.in_progress
            wait_s = max(1, -(-(stored.until_ms - now_ms) // 1000))
            raise Problem(409, Text.IDEMPOTENCY_KEY_IN_PROGRESS.filled(seconds=wait_s), retry_after_s=wait_s)
        logs.note(send_id=stored.send_id, idempotency_claim=stored.id)
        if stored.response is not None:
            logger.info("response replayed")
        # guard: idempotency.claimed_send
        identity = SendIdentity(
            send_id=stored.send_id, requested_at_ms=stored.requested_at_ms, chunk_size=stored.chunk_size
        )
        return Attempt(identity=identity, claim=stored, is_first=is_first)

    @contextmanager
    def running(self, attempt: Attempt) -> Iterator[None]:
        """End the claim of an attempt if this context ends with an error."""
        try:
            yield
        except Exception as error:
            if (claim := attempt.claim) is None:
                raise
            # Nothing of a refused request has had an effect, unless an earlier attempt was interrupted.
            if _is_refusal(error) and attempt.is_first:  # guard: idempotency.refused_request
                self._try("freed", lambda: self.keys.free(claim))
                raise
            # The claim is released, so that the next attempt does not have to wait for the function's time limit; it
            # completes the same send.
            self._try("released", lambda: self.keys.release(claim))  # guard: idempotency.released
            raise

    def complete(self, attempt: Attempt, body: str) -> None:
        """Store the body of the response. The broker has the send, so it is accepted, even if the response cannot be
        stored: a repeated request would then produce the same records again.
        """
        if (claim := attempt.claim) is not None:
            self._try("completed", lambda: self.keys.complete(claim, body))  # guard: idempotency.stored_response

    def _stored(
        self, keyed: KeyedRequest, new: SendIdentity, refused: Problem | None, owner: str, now_ms: int
    ) -> Claim:
        """Return the claim of the key: a new one of this attempt, or that of an earlier request."""
        id_ = claim_id(keyed.club_id, keyed.key, is_test=keyed.is_test)
        if refused is not None:
            if (found := self.keys.find(id_, now_ms=now_ms)) is None:
                raise refused
            return found
        claim = Claim(
            id=id_,
            request=keyed.digest,
            send_id=new.send_id,
            requested_at_ms=new.requested_at_ms,
            chunk_size=new.chunk_size,
            owner=owner,
            until_ms=now_ms + keyed.remaining_ms,
        )
        return self.keys.claim(claim, now_ms=now_ms)

    def _try(self, what: str, call: Callable[[], None]) -> None:
        """Call the store, and ignore its errors: the claim then expires, and a repeated request produces the same
        records.
        """
        try:
            call()
        except MasscommError as error:
            logger.warning(
                f"the idempotency key was not {what}: it lapses with the function's time-out", error=str(error)
            )


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, Problem) and not isinstance(error, PartlyExecuted) and error.status < 500
