"""Executes a request once for each Idempotency-Key: a repeated request completes the same send, or gets the stored
response.
"""

from collections.abc import Callable
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
    # Returns the identity of a new request. Raises Problem if the request may no longer begin.
    identify: Callable[[], SendIdentity]
    # Executes the request with the identity of its first attempt. Returns the body of the response, as JSON.
    execute: Callable[[SendIdentity], str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    identity: SendIdentity
    # The body of the response, as JSON.
    body: str
    # Whether the response was stored for an earlier request.
    replayed: bool


@dataclass(frozen=True, kw_only=True)
class RequestOnce:
    """The use case for requests with an idempotency key. Each function environment has one instance."""

    keys: IdempotencyKeys
    clock: Clock

    def request(self, keyed: KeyedRequest) -> Answer:
        """Execute the first request with a key, or return the stored response to it.

        Raises Problem with status 422 (the key belongs to another request) or 409 (an attempt is in progress), the
        errors of the request, and Retry or Stop from the store before the request is executed.
        """
        claim, is_first = self._claim(keyed, str(uuid4()))
        logs.note(send_id=claim.send_id, idempotency_claim=claim.id)
        # guard: idempotency.claimed_send
        identity = SendIdentity(
            send_id=claim.send_id, requested_at_ms=claim.requested_at_ms, chunk_size=claim.chunk_size
        )
        if claim.response is not None:
            logger.info("response replayed")
            return Answer(identity=identity, body=claim.response, replayed=True)
        try:
            body = keyed.execute(identity)
        except Exception as error:
            # Nothing of a refused request has had an effect, unless an earlier attempt was interrupted.
            if _is_refusal(error) and is_first:  # guard: idempotency.refused_request
                self._try("freed", lambda: self.keys.free(claim))
                raise
            # The claim is released, so that the next attempt does not have to wait for the function's time limit; it
            # completes the same send.
            self._try("released", lambda: self.keys.release(claim))  # guard: idempotency.released
            raise
        # The broker has the send, so it is accepted, even if the response cannot be stored. A repeated request would
        # then produce the same records again.
        self._try("completed", lambda: self.keys.complete(claim, body))  # guard: idempotency.stored_response
        return Answer(identity=identity, body=body, replayed=False)

    def _claim(self, keyed: KeyedRequest, owner: str) -> tuple[Claim, bool]:
        """Return the claim of the key: it has a response, or this attempt executes it. Also return whether this is the
        first attempt. Raises Problem with status 422 or 409.
        """
        now_ms = self.clock.now_ms()
        until_ms = now_ms + keyed.remaining_ms
        stored = self._stored(keyed, owner, now_ms, until_ms)
        if stored.request != keyed.digest:  # guard: idempotency.other_request
            raise other_request()
        is_first = stored.owner == owner
        if stored.owner != owner and stored.response is None and stored.until_ms <= now_ms:
            stored = self.keys.take_over(stored, owner=owner, until_ms=until_ms)
        if stored.owner != owner and stored.response is None:  # guard: idempotency.in_progress
            wait_s = max(1, -(-(stored.until_ms - now_ms) // 1000))
            raise Problem(
                409,
                Text.IDEMPOTENCY_KEY_IN_PROGRESS.filled(seconds=wait_s),
                retry_after_s=wait_s,
            )
        return stored, is_first

    def _stored(self, keyed: KeyedRequest, owner: str, now_ms: int, until_ms: int) -> Claim:
        """Return the claim of the key: a new one of this attempt, or that of an earlier request."""
        id_ = claim_id(keyed.club_id, keyed.key, is_test=keyed.is_test)
        try:
            new = keyed.identify()
        except Problem:
            # The times in a send that was claimed before were valid then, and may have passed since; they are checked
            # only for a new claim.
            if (stored := self.keys.find(id_, now_ms=now_ms)) is None:
                raise
            return stored
        claim = Claim(
            id=id_,
            request=keyed.digest,
            send_id=new.send_id,
            requested_at_ms=new.requested_at_ms,
            chunk_size=new.chunk_size,
            owner=owner,
            until_ms=until_ms,
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
