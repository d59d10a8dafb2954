"""A circuit breaker per SNS platform application: opens when SNS reports the application as disabled.

Its recipients are retried later; other applications are not affected. After the pause, one call probes the application.
"""

import threading
from collections.abc import Mapping

from masscomm.channels.provider import ApplicationOff, PushProvider
from masscomm.clock import Clock

PAUSE_S = 30.0


class PushCircuitBreaker:
    """A push provider with a circuit breaker for each platform application, for one function environment;
    thread-safe."""

    def __init__(self, provider: PushProvider, *, clock: Clock, pause_s: float = PAUSE_S) -> None:
        self._provider = provider
        self._clock = clock
        self._pause_s = pause_s
        self._open_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        application = application_of(endpoint_arn)
        self._check(application)
        try:
            message_id = self._provider.publish(endpoint_arn=endpoint_arn, message=message, attributes=attributes)
        except ApplicationOff:
            with self._lock:
                # guard: provider.circuit_breaker
                self._open_until[application] = self._clock.monotonic() + self._pause_s
            raise
        with self._lock:
            self._open_until.pop(application, None)
        return message_id

    def _check(self, application: str) -> None:
        with self._lock:
            until = self._open_until.get(application)
            if until is None:
                return
            if self._clock.monotonic() < until:
                raise ApplicationOff(f"{application} was disabled a moment ago")
            # This call probes; the others fail until it has succeeded.
            self._open_until[application] = self._clock.monotonic() + self._pause_s


def application_of(endpoint_arn: str) -> str:
    """Return the application of an endpoint: GCM/NAME of arn:aws:sns:REGION:ACCOUNT:endpoint/GCM/NAME/ID."""
    return "/".join(endpoint_arn.split("/")[1:-1]) or endpoint_arn
