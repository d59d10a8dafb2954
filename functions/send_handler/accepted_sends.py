"""Records accepted sends, for requests about a send before metrics have counted it.

A send with more than SMALL_SEND recipients, with a send_at or to an audience is recorded before it is produced, because
the broker may accept a part of it only. The other sends are recorded while their records are produced, so that the
response does not wait for two stores in turn.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from dataclasses import dataclass, field

from functions.send_handler.send_request import SendRequest, check_times
from masscomm.aws.request import Limits
from masscomm.domain.time_limits import ACCEPTED_CALL_S
from masscomm.errors import MasscommError
from masscomm.http.problem import Problem
from masscomm.observability import logs
from masscomm.stores.send_controls import AcceptedSend, SendControls
from masscomm.stores.send_controls_dynamodb import DynamoDbSendControls

logger = logs.logger("send_handler")

_ATTEMPTS = 2
_ATTEMPT_S = ACCEPTED_CALL_S / _ATTEMPTS


class DynamoDbAcceptedSends(DynamoDbSendControls):
    """The store of controls with the time limits of a request that is answered."""

    LIMITS = Limits(connections=1, connect_s=_ATTEMPT_S / 2, read_s=_ATTEMPT_S / 2, attempts=_ATTEMPTS)


def check_possible(send: SendRequest, now_ms: int, controls: SendControls) -> None:
    """Check the times of a send. Those of a send that was accepted before were valid then, and may have passed since.

    Raises the errors of check_times, and for a send whose id the caller chose those of the store.
    """
    try:
        check_times(send, now_ms)
    except Problem:
        stored = None if send.send_id is None else controls.accepted(send.send_id)
        if stored is None or stored.send.club_id != send.club_id:
            raise


@dataclass(kw_only=True)
class AcceptedSends:
    """Records accepted sends in a thread. Best effort: a send that is not recorded is known once it is counted."""

    controls: SendControls
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)
    _last: Future[None] | None = field(default=None, init=False)

    def begin(self, sends: Sequence[AcceptedSend]) -> Callable[[], None]:
        """Begin to record sends. Returns a function that waits until they are recorded, at most ACCEPTED_CALL_S."""
        # While DynamoDB hangs, only the first request waits for it.
        if self._last is not None and not self._last.done():  # guard: accepted_sends.do_not_queue
            logger.warning("accepted sends are not recorded: an earlier request still waits for DynamoDB")
            return _nothing
        self._last = recording = self._pool.submit(self.controls.accept, sends)
        return lambda: _wait(recording)


def _nothing() -> None:
    pass


def _wait(recording: "Future[None]") -> None:
    try:
        recording.result(ACCEPTED_CALL_S)
    except (MasscommError, NotDone) as error:
        logger.warning("accepted sends are known only after they are counted", error=repr(error))
