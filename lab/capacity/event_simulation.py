"""Simulates events in virtual time, from the topic `event` to the answers of endpoints, with the batches of
lab.capacity.events.

One invocation at a time consumes a partition, and a mapping runs at most five invocations a poller. Events arrive
evenly over the partitions of `event`; a message goes to the partition of its endpoint's bucket. Messages are counted
when their batch has ended. Failures, cold starts and the limit of a batch's bytes are not simulated. The same seed
results in the same figures. `rise` is a calculation in steps of a second.
"""

import random
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from lab.capacity.event_load import EventLoad, EventTimes
from lab.capacity.events import KAFKA_S, EventPlan, batches, full_matcher_s, sender_batch
from lab.capacity.quotas import quota
from lab.capacity.service_times import ServiceTimes, Time
from lab.capacity.simulation import Clock

# How often a function without a batch looks for events.
_POLL_S = 0.005
# The longest time in which a load that has risen is calculated.
_RISE_S = 3_600


@dataclass
class Some:
    """Messages that wait in a partition: events that are not matched yet, or those of a record."""

    born: float  # The mean time at which they occurred.
    count: int


@dataclass(kw_only=True)
class EventResult:
    """What has happened to messages until a time."""

    occurred: int = 0
    sent: int = 0
    # (seconds from an event to the end of its batch, the time of this end, number of messages)
    waits: list[tuple[float, float, int]] = field(default_factory=list)
    # The seconds in which environments were busy, of both functions.
    matcher_busy_s: float = 0.0
    sender_busy_s: float = 0.0

    def percentile(self, share: float, since: float = 0.0) -> float:
        """Return a percentile of the seconds of the messages that were sent after a time; 0 if none was."""
        waits = sorted((wait, count) for wait, at, count in self.waits if at >= since)
        left = share * sum(count for _, count in waits)
        for wait, count in waits:
            left -= count
            if left <= 0:
                return wait
        return 0.0


class EventSimulation:
    """Both functions with their partitions. `run(until)` may be called several times, with rising times."""

    def __init__(
        self,
        load: EventLoad,
        plan: EventPlan,
        times: EventTimes,
        service: ServiceTimes,
        *,
        seed: int = 1,
    ) -> None:
        self.result = EventResult()
        self.clock = Clock()
        self._load, self._plan, self._times, self._service = load, plan, times, service
        self._rng = random.Random(seed)  # noqa: S311 - a simulation
        self._partition = [zlib.crc32(str(bucket).encode()) % plan.partitions for bucket in range(plan.buckets)]
        self._matcher = _Function(self, plan.matcher_records, self._match, is_split=True)
        self._sender = _Function(self, plan.sender_records, self._send, is_split=False)
        self._arrive()

    @property
    def waiting(self) -> int:
        """Return the number of messages that are not sent yet."""
        return self.result.occurred - self.result.sent

    def run(self, until: float) -> EventResult:
        self.clock.run(until)
        self.result.matcher_busy_s, self.result.sender_busy_s = self._matcher.busy_s, self._sender.busy_s
        return self.result

    @property
    def permitted(self) -> float:
        """Return the number of invocations that the pollers of a mapping permit."""
        return quota("invocations_a_poller") * self._plan.pollers

    @property
    def partitions(self) -> int:
        return self._plan.partitions

    def _arrive(self) -> None:
        mean = self._load.events_s * _POLL_S / self._plan.partitions
        for number in range(self._plan.partitions):
            # Poisson's distribution, by the normal one where it is large.
            count = max(0, round(self._rng.gauss(mean, mean**0.5))) if mean > 20 else self._small(mean)
            if count:
                self._matcher.put(number, Some(self.clock.now - _POLL_S / 2, count))
                self.result.occurred += count
        self._matcher.dispatch()
        self.clock.at(self.clock.now + _POLL_S, self._arrive)

    def _small(self, mean: float) -> int:
        count, at = 0, self._rng.expovariate(1.0)
        while at < mean:
            count, at = count + 1, at + self._rng.expovariate(1.0)
        return count

    def _match(self, batch: Sequence[Some]) -> tuple[float, Callable[[], None]]:
        events = sum(some.count for some in batch)
        each = Time(wall_s=self._times.matcher_s, cpu_s=self._times.matcher_s).at(self._plan.matcher_mb)
        fixed = self._service.lines["builder"].invocation.at(self._plan.matcher_mb) + KAFKA_S

        def ended() -> None:
            born = sum(some.born * some.count for some in batch) / events
            buckets = Counter(self._rng.choices(range(self._plan.buckets), k=events))
            for bucket, count in buckets.items():
                self._sender.put(self._partition[bucket], Some(born, count))
            self._sender.dispatch()

        return fixed + events * each, ended

    def _send(self, batch: Sequence[Some]) -> tuple[float, Callable[[], None]]:
        messages = sum(some.count for some in batch)
        found = sender_batch(
            messages, messages / len(batch), (1.0, 0.0), self._load, self._plan, self._times, self._service
        )

        def ended() -> None:
            now = self.clock.now
            self.result.sent += messages
            self.result.waits += [(now - some.born, now, some.count) for some in batch]

        return found.sender_s, ended


class _Function:
    """A function with its mapping and the partitions of its topic."""

    def __init__(
        self,
        simulation: EventSimulation,
        most: int,
        process: Callable[[Sequence[Some]], tuple[float, Callable[[], None]]],
        *,
        is_split: bool,
    ) -> None:
        # The most records of a batch; `is_split`: each message is a record of its own.
        self._simulation, self._most, self._process, self._is_split = simulation, most, process, is_split
        self._partitions: list[deque[Some]] = [deque() for _ in range(simulation.partitions)]
        self._ready: deque[int] = deque()
        # Whether a partition is in `_ready`, or has a batch in flight.
        self._taken = [False] * simulation.partitions
        self._running = 0
        self.busy_s = 0.0

    def put(self, number: int, some: Some) -> None:
        """Append messages to a partition."""
        self._partitions[number].append(some)
        self._offer(number)

    def dispatch(self) -> None:
        """Invoke the function for waiting partitions, as far as the pollers permit."""
        while self._ready and self._running < self._simulation.permitted:
            self._begin(self._ready.popleft())

    def _offer(self, number: int) -> None:
        if self._partitions[number] and not self._taken[number]:
            self._taken[number] = True
            self._ready.append(number)

    def _batch(self, number: int) -> list[Some]:
        queue, batch, left = self._partitions[number], list[Some](), self._most
        while queue and left:
            some = queue.popleft()
            if self._is_split and some.count > left:
                queue.appendleft(Some(some.born, some.count - left))
                some = Some(some.born, left)
            batch.append(some)
            left -= some.count if self._is_split else 1
        return batch

    def _begin(self, number: int) -> None:
        seconds, ended = self._process(self._batch(number))
        self._running += 1
        self.busy_s += seconds

        def end() -> None:
            self._taken[number] = False
            self._running -= 1
            ended()
            self._offer(number)
            self.dispatch()

        clock = self._simulation.clock
        clock.at(clock.now + seconds, end)


class Rise(NamedTuple):
    """What waits after a load has risen at once."""

    most: float  # The most messages that wait, and the time until none does (infinite if some always do).
    ended_s: float
    # The oldest message's age where the most wait.
    age_s: float


def rise(
    load: EventLoad, plan: EventPlan, times: EventTimes, service: ServiceTimes, *, pollers: int, poller_s: float
) -> Rise:
    """Return what waits if a load begins at once, with so many pollers of each mapping, and one more of each every
    poller_s seconds (0: never). A second's messages are processed as the environments of that second permit.
    """
    found = batches(load, plan, times, service)
    matched_s = plan.matcher_records / full_matcher_s(plan, times, service) * load.endpoints_an_event
    unmatched = unsent = most = age = 0.0
    for second in range(_RISE_S):
        running = min(plan.pollers, pollers + (second // poller_s if poller_s else 0))
        environments = min(plan.partitions, quota("invocations_a_poller") * running)
        unmatched += load.messages_s
        passed = min(unmatched, environments * matched_s)
        unmatched -= passed
        unsent += passed
        sent = min(unsent, environments * found.partition_s)
        unsent -= sent
        if unmatched + unsent > most:
            most, age = unmatched + unsent, (unmatched + unsent) / load.messages_s
        if unmatched + unsent < 1:
            return Rise(most, second, age)
    return Rise(most, inf, age)
