"""Continues the records of a paused send that the scheduler has released."""

from dataclasses import replace

from masscomm.domain.delays import RESUMED_AT_HEADER
from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested
from masscomm.integers import integer_or
from masscomm.kafka.event import KafkaRecord


def since_resumed[R: RecheckRequested | BuildRequested | DeliveryRequested](request: R, record: KafkaRecord) -> R:
    """Return the request as its first attempt was at the end of the pause, so that a long pause uses up no retries.

    A request that was not held is returned unchanged.
    """
    # Any producer can set a header.
    resumed_at = integer_or(record.header(RESUMED_AT_HEADER), None, 0, END_OF_TIME_MS - 1)
    if resumed_at is None:
        return request
    # guard: latencies.resumed
    resumed = replace(request, waited_until=max(resumed_at, request.waited_until or 0))
    if isinstance(resumed, DeliveryRequested):
        return replace(resumed, built_at=max(resumed_at, resumed.built_at))
    return resumed
