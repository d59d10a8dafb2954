"""Circuit breakers: they stop calls to a provider, or to one SNS platform application, while these calls cannot
succeed.

An instance belongs to one event loop.
"""

from collections.abc import Mapping

from masscomm.channels.provider import CALL_S, PushProvider
from masscomm.clock import Clock
from masscomm.domain.provider_errors import ApplicationOff, TargetGone, TargetUnknown
from masscomm.domain.time_limits import APPLICATION_PAUSE_S, CALL_LAST_PAUSE_S, OUTAGE_PROBE_S

# The failed calls that are needed before a provider counts as down: fewer failures can be caused by a single recipient
# whose message is always refused.
_OUTAGE_CALLS = 5
# The endpoints of an application that SNS does not know in a row, until the region or the account counts as wrong, and
# not the endpoints as deleted.
UNKNOWN_IN_A_ROW = 20


class OutageCircuitBreaker:
    """Opens when a provider has accepted nothing for the outage timeout. While it is open, one call per second
    probes the provider.

    Args:
        outage_timeout_s: Seconds from the first failure after the last success until the circuit opens.
    """

    def __init__(self, clock: Clock, outage_timeout_s: float) -> None:
        self._clock = clock
        self.outage_timeout_s = outage_timeout_s
        # The time of the first failure after the last success.
        self._failing_since: float | None = None
        self._last_failure = 0.0
        # The number of failed calls since the last success; a repeated call counts once.
        self._failed_calls = 0
        # The time of the next probe; set while the circuit is open.
        self._probe_at: float | None = None

    def may_call(self) -> bool:
        """Return whether a call may be made now. The caller then reports its result with `succeeded`, `failed` or
        `not_called`.
        """
        now = self._clock.monotonic()
        self._forget_old_failures(now)
        if self._probe_at is None:
            return True
        if now < self._probe_at:
            return False
        self._probe_at = now + CALL_S + OUTAGE_PROBE_S  # Other calls wait for the result of this probe.
        return True

    def may_retry(self, pause_s: float) -> bool:
        """Return whether a failed call may be repeated after the pause."""
        now = self._clock.monotonic()
        if self._failing_since is None or now + pause_s <= self._failing_since + self.outage_timeout_s:
            return True
        if self._failed_calls >= _OUTAGE_CALLS:
            self._probe_at = self._probe_at or now + OUTAGE_PROBE_S
        return False

    def succeeded(self) -> None:
        """Record that the provider accepted a message, or reported a device as gone."""
        self._close()

    def failed(self, *, repeated: bool = False) -> None:
        """Record that the provider accepted nothing. `repeated` is true if the same call has failed before."""
        now = self._clock.monotonic()
        self._forget_old_failures(now)
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._last_failure = now
        self._failed_calls += not repeated
        if self._probe_at is not None:
            self._probe_at = now + OUTAGE_PROBE_S

    def not_called(self) -> None:
        """Record that the call ended before it reached the provider."""
        if self._probe_at is not None:
            self._probe_at = self._clock.monotonic()

    def _close(self) -> None:
        self._failing_since, self._failed_calls, self._probe_at = None, 0, None

    def _forget_old_failures(self, now: float) -> None:
        if now - self._last_failure > self.outage_timeout_s + CALL_LAST_PAUSE_S + CALL_S:
            self._close()


class PushCircuitBreaker:
    """Wraps a push provider with one circuit breaker for each platform application that SNS reports as disabled, or of
    which SNS knows none of the last UNKNOWN_IN_A_ROW endpoints.

    Recipients of such an application are retried later, and their devices stay enabled; other applications are not
    affected. After a pause, one call probes the application.
    """

    def __init__(self, provider: PushProvider, *, clock: Clock, pause_s: float = APPLICATION_PAUSE_S) -> None:
        self._provider = provider
        self._clock = clock
        self._pause_s = pause_s
        self._open_until: dict[str, float] = {}
        # By application: the number of unknown endpoints since the last known one.
        self._unknown: dict[str, int] = {}

    async def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        application = application_of(endpoint_arn)
        if self._open_until:
            self._check(application)
        try:
            message_id = await self._provider.publish(endpoint_arn=endpoint_arn, message=message, attributes=attributes)
        except ApplicationOff:
            self._open(application)
            raise
        except TargetUnknown as error:
            self._unknown[application] = self._unknown.get(application, 0) + 1
            if self._unknown[application] >= UNKNOWN_IN_A_ROW:  # guard: provider.unknown_endpoints
                self._open(application)
                raise ApplicationOff(f"SNS knows none of {UNKNOWN_IN_A_ROW} endpoints in a row: {error}") from error
            raise
        except TargetGone:
            self._close(application)
            raise
        self._close(application)
        return message_id

    def _open(self, application: str) -> None:
        # guard: provider.circuit_breaker
        self._open_until[application] = self._clock.monotonic() + self._pause_s

    def _close(self, application: str) -> None:
        if self._open_until or self._unknown:
            self._open_until.pop(application, None)
            self._unknown.pop(application, None)

    def _check(self, application: str) -> None:
        until = self._open_until.get(application)
        if until is None:
            return
        if self._clock.monotonic() < until:
            raise ApplicationOff(f"{application} was disabled a moment ago")
        # The current call is the probe; other calls fail until it has succeeded.
        self._open_until[application] = self._clock.monotonic() + self._pause_s


def application_of(endpoint_arn: str) -> str:
    """Return the platform application of an endpoint: GCM/NAME of arn:aws:sns:REGION:ACCOUNT:endpoint/GCM/NAME/ID."""
    return "/".join(endpoint_arn.split("/")[1:-1]) or endpoint_arn
