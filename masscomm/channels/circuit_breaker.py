"""A push provider that leaves a platform application alone for a while once SNS said that it takes nothing.

Its recipients are rescheduled; those of other applications go on. What is asked again after the pause is one call, not
everybody's.
"""

import threading
from collections.abc import Mapping

from masscomm.channels.provider import ApplicationOff, PushProvider
from masscomm.clock import Clock

PAUSE_S = 30.0


class CircuitPush:
    """A circuit breaker a platform application, for one function environment; thread-safe."""

    def __init__(self, provider: PushProvider, *, clock: Clock, pause_s: float = PAUSE_S) -> None:
        self._provider = provider
        self._clock = clock
        self._pause_s = pause_s
        self._off_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        application = application_of(endpoint_arn)
        self._check(application)
        try:
            message_id = self._provider.publish(endpoint_arn=endpoint_arn, message=message, attributes=attributes)
        except ApplicationOff:
            with self._lock:
                # guard: provider.circuit_breaker
                self._off_until[application] = self._clock.monotonic() + self._pause_s
            raise
        with self._lock:
            self._off_until.pop(application, None)
        return message_id

    def _check(self, application: str) -> None:
        with self._lock:
            until = self._off_until.get(application)
            if until is None:
                return
            if self._clock.monotonic() < until:
                raise ApplicationOff(f"{application} took nothing a moment ago")
            # This call finds out; the others wait for what it learns.
            self._off_until[application] = self._clock.monotonic() + self._pause_s


def application_of(endpoint_arn: str) -> str:
    """The application of an endpoint: arn:aws:sns:REGION:ACCOUNT:endpoint/GCM/NAME/ID is of GCM/NAME."""
    return "/".join(endpoint_arn.split("/")[1:-1]) or endpoint_arn
