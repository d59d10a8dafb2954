"""The results of small sends in a dictionary, for unit tests. Thread-safe."""

from collections.abc import Sequence

from masscomm.clock import Clock, SystemClock
from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import REGISTERED_SENDS_KEPT_S
from masscomm.stores.in_memory import InMemoryStore


class InMemorySendResults(InMemoryStore):
    """The store in a dictionary."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or SystemClock()
        # By the id of the send and that of the outcome record: the results, and the time at which they were stored.
        self._stored: dict[tuple[str, str], tuple[SendResult, int]] = {}

    def put(self, results: Sequence[SendResult]) -> None:
        now_ms = self._clock.now_ms()
        with self._lock:
            self._stored |= {(each.send.send_id, each.record_id): (each, now_ms) for each in results}

    def since(self, send: SendKey, at_ms: int | None) -> Sequence[SendResult]:
        # DynamoDB stores whole seconds in `expires_at`.
        kept_since_s = self._clock.now_ms() // 1000 - REGISTERED_SENDS_KEPT_S
        with self._lock:
            return [
                each
                for each, stored_ms in self._stored.values()
                if each.send == send and stored_ms >= (at_ms or 0) and stored_ms // 1000 > kept_since_s
            ]
