"""Registers accepted sends.

A send that is listed (large, in parts, scheduled or to an audience) is registered before it is produced: without its
item it could not be controlled. Another is registered while the producer's thread delivers its records, so that the
response does not wait for two stores in turn; if this fails, preference_checker registers it from its record.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from functions.send_handler.send_request import SendRequest, time_problem
from masscomm.aws.request import Limits
from masscomm.domain.sends import Send
from masscomm.domain.time_limits import ACCEPTED_CALL_S
from masscomm.errors import MasscommError
from masscomm.http.problem import Problem
from masscomm.observability import logs
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import OtherSend, Sends

logger = logs.logger("send_handler")

_ATTEMPTS = 2
_ATTEMPT_S = ACCEPTED_CALL_S / _ATTEMPTS


class DynamoDbRequestedSends(DynamoDbSends):
    """The register with the time limits of a request that is answered."""

    LIMITS = Limits(connections=2, connect_s=_ATTEMPT_S / 2, read_s=_ATTEMPT_S / 2, attempts=_ATTEMPTS)


def begin_problem(send: SendRequest, now_ms: int, sends: Sends) -> Problem | None:
    """Return the problem of a send that may no longer begin. The times of one that was accepted before were valid then,
    and may have passed since. Raises the errors of the register for a send whose id the caller chose.
    """
    problem = time_problem(send, now_ms)
    if problem is None or send.send_id is None:
        return problem
    stored = sends.find(send.send_id)
    was_accepted = stored is not None and stored.parts is not None and stored.key.club_id == send.club_id
    return None if was_accepted else problem


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Registers sends. Each function environment has one instance."""

    sends: Sends

    def register(self, sends: Sequence[Send]) -> None:
        """Register sends. Raises OtherSend, and the errors of the register."""
        stored = self.sends.register(sends)
        for send in sends:
            found = stored[send.key.send_id]
            if isinstance(found, MasscommError):
                raise found
            if not found.is_same(send):
                raise OtherSend(send.key.send_id)

    def try_to_register(self, sends: Sequence[Send]) -> None:
        """Register sends whose records are on their way, if the register answers."""
        try:
            self.register(sends)
        except MasscommError as error:
            logger.warning("sends are registered when their records are consumed", error=repr(error))

    def mark_produced(self, send: Send, part_index: int) -> None:
        """Record that the broker has a part. Without this mark, its repetition produces the same records again."""
        try:
            self.sends.mark_produced(send, part_index)
        except MasscommError as error:
            logger.warning("a part is not marked as produced", error=repr(error))
