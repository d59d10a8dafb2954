"""Simulation of the chain in virtual time: topics, partitions, event pollers, environments, the provider.

    arrivals → send ─▶ preference_checker ─▶ build ─▶ builder ─▶ delivery ─▶ delivery ─▶ provider

A partition is given to one invocation at a time, a batch is of one partition, a mapping runs five invocations a poller
at most and none more than the account has, and a new environment starts cold. A delivery's records, slices and calls
follow one another as in functions/delivery. Calls above the provider's quota wait for their turn at the provider (in
reality they are refused and retried, with the same effect on the rate).

Not simulated: failures, redeliveries, rebalances, leases, the writing into Kafka beyond its measured time. Same seed,
same result: the simulation does not read the machine's clock.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

INVOCATIONS_A_POLLER = 5
# Rounding errors of a number of recipients or calls are below this.
_NOTHING = 1e-6


@dataclass(frozen=True, kw_only=True)
class Calls:
    """An environment's calls to the provider. A slice's calls end before the next slice's begin."""

    workers: int  # calls at once
    slice_size: int
    cpu_s: float  # the environment's own part of a call, one at a time
    latency_s: float  # the provider's part
    per_recipient: float
    not_overlapped: float = 0.0  # share of the shorter of the two times that is added


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function in one lane with its mapping."""

    name: str
    partitions: int
    batch: int  # records
    record: int  # most recipients of a produced record
    invocation_s: float  # time of an invocation, without the provider
    recipient_s: float  # additional time of each recipient, without the provider
    passed: float = 1.0  # share of recipients that are not suppressed
    pollers: tuple[int, int] = (1, 1)  # at the start and at most, one more every poller_s
    poller_s: float = 0.0
    environments: float = inf  # most environments of the function
    warm: int = 0
    cold_start_s: float = 0.0
    calls: Calls | None = None  # of delivery
    even: bool = False  # records go to the partitions in turn, not by key


@dataclass(slots=True)
class Record:
    """A record in the simulation."""

    count: float  # recipients
    born: float  # arrival of their send


class Provider:
    """A rate that all environments share. burst: calls that may come at once."""

    def __init__(self, rate: float, burst: float = 0.0) -> None:
        self.rate = rate
        self.calls = 0.0
        self._free = -burst / rate if rate < inf else 0.0
        self._burst_s = burst / rate if rate < inf else 0.0

    def admit(self, calls: float, now: float) -> float:
        """When the last of so many calls is let through."""
        self.calls += calls
        if self.rate == inf:
            return now
        self._free = max(self._free, now - self._burst_s) + calls / self.rate
        return max(now, self._free)


class Clock:
    """Virtual time, and the queue of due events."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (when, self._sequence, act))

    def run(self, until: float = inf) -> None:
        """Run until no event is due, or until that time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, act = heapq.heappop(self._due)
            act()
        if until < inf:
            self.now = max(self.now, until)


@dataclass
class Account:
    """Invocations at a time that all functions share."""

    concurrency: float = inf
    used: int = 0
    waiting: "deque[Mapping]" = field(default_factory=deque)

    def freed(self) -> None:
        self.used -= 1
        for _ in range(len(self.waiting)):
            self.waiting.popleft().dispatch()


class Mapping:
    """A step's topic, mapping and environments."""

    def __init__(
        self,
        step: Step,
        clock: Clock,
        account: Account,
        rng: random.Random,
        provider: Provider,
        on: Callable[[Step, Record], None],
    ) -> None:
        self.step = step
        self.invocations = 0
        self.records = 0
        self.cold_starts = 0
        self._put = 0
        self._busy_s = 0.0
        self._counted_at = 0.0
        self._clock, self._account, self._rng, self._provider, self._on = clock, account, rng, provider, on
        self._partitions: list[deque[Record]] = [deque() for _ in range(step.partitions)]
        self._ready: deque[int] = deque()
        self._taken = [False] * step.partitions
        self._running = 0
        self._environments = step.warm
        self._pollers = step.pollers[0]
        if step.poller_s > 0:
            for number in range(step.pollers[0] + 1, step.pollers[1] + 1):
                clock.at((number - step.pollers[0]) * step.poller_s, self._one_poller_more)
        else:
            self._pollers = step.pollers[1]

    @property
    def most(self) -> float:
        """Invocations at a time, with every poller there."""
        return min(self.step.partitions, self.step.environments, INVOCATIONS_A_POLLER * self.step.pollers[1])

    @property
    def busy_s(self) -> float:
        """Environments that were busy, summed over time."""
        self._count(0)
        return self._busy_s

    def put(self, record: Record) -> None:
        """Into a partition by its key, which is as good as at random."""
        number = self._put % self.step.partitions if self.step.even else self._rng.randrange(self.step.partitions)
        self._put += 1
        partition = self._partitions[number]
        partition.append(record)
        if len(partition) == 1 and not self._taken[number]:
            self._ready.append(number)
            self.dispatch()

    def dispatch(self) -> None:
        """Invoke for every partition that waits, as far as pollers, environments and the account allow."""
        while self._ready and self._running < min(INVOCATIONS_A_POLLER * self._pollers, self.step.environments):
            if self._account.used >= self._account.concurrency:
                if self not in self._account.waiting:
                    self._account.waiting.append(self)
                return
            number = self._ready.popleft()
            partition = self._partitions[number]
            batch = [partition.popleft() for _ in range(min(self.step.batch, len(partition)))]
            self._taken[number] = True
            self._count(1)
            self._account.used += 1
            self._begin(number, batch)

    def _begin(self, number: int, batch: Sequence[Record]) -> None:
        self.invocations += 1
        self.records += len(batch)
        takes = self.step.invocation_s
        if self._running > self._environments:
            self._environments = self._running
            self.cold_starts += 1
            takes += self.step.cold_start_s
        if self.step.calls is None:
            takes += sum(record.count for record in batch) * self.step.recipient_s
            self._clock.at(self._clock.now + takes, lambda: self._end(number, batch))
        else:
            self._clock.at(self._clock.now + takes, lambda: self._deliver(number, batch, 0, batch[0].count, 0.0))

    def _deliver(self, number: int, batch: Sequence[Record], index: int, left: float, of_slice: float) -> None:
        """The next wave of calls of the record at that place; of_slice: calls left of the slice."""
        calls = self.step.calls
        assert calls is not None  # noqa: S101 - only a step with calls comes here
        now = self._clock.now
        spent = 0.0
        if of_slice <= _NOTHING:
            recipients = min(calls.slice_size, left)
            left -= recipients
            of_slice = recipients * calls.per_recipient
            spent = recipients * self.step.recipient_s
        wave = min(calls.workers, of_slice)
        of_slice -= wave
        admitted = self._provider.admit(wave, now + spent)
        computed, waited = wave * calls.cpu_s, calls.latency_s + calls.cpu_s
        lost = calls.not_overlapped * min(computed, calls.latency_s)
        done = max(now + spent + computed, admitted + waited) + lost
        if of_slice > _NOTHING or left > _NOTHING:
            self._clock.at(done, lambda: self._deliver(number, batch, index, left, of_slice))
        elif index + 1 < len(batch):
            self._clock.at(done, lambda: self._next(number, batch, index))
        else:
            self._clock.at(done, lambda: self._last(number, batch))

    def _next(self, number: int, batch: Sequence[Record], index: int) -> None:
        self._on(self.step, batch[index])
        self._deliver(number, batch, index + 1, batch[index + 1].count, 0.0)

    def _last(self, number: int, batch: Sequence[Record]) -> None:
        self._on(self.step, batch[-1])
        self._end(number, batch)

    def _end(self, number: int, batch: Sequence[Record]) -> None:
        self._count(-1)
        self._taken[number] = False
        if self._partitions[number]:
            self._ready.append(number)
        if self.step.calls is None:
            for record in batch:
                self._on(self.step, record)
        self._account.freed()
        self.dispatch()

    def _count(self, more: int) -> None:
        self._busy_s += self._running * (self._clock.now - self._counted_at)
        self._counted_at = self._clock.now
        self._running += more

    def _one_poller_more(self) -> None:
        self._pollers += 1
        self.dispatch()


@dataclass(kw_only=True)
class Result:
    """Results of one lane."""

    arrived: float = 0.0  # arrived, suppressed, delivered: recipients
    suppressed: float = 0.0
    delivered: float = 0.0
    inside_s: float = 0.0  # recipients inside, summed over time
    ended_s: float = 0.0  # time of the last delivery
    # (seconds from arrival to the provider's answer, recipients) of each delivered record
    waits: list[tuple[float, float]] = field(default_factory=list)
    steps: list[Mapping] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Seconds within which that share of the delivered recipients were delivered; 0 if there are none."""
        left = share * sum(count for _, count in self.waits)
        for wait, count in sorted(self.waits):
            left -= count
            if left <= _NOTHING:
                return wait
        return 0.0

    @property
    def mean_s(self) -> float:
        """Mean seconds inside of the recipients that were delivered or suppressed."""
        return self.inside_s / (self.delivered + self.suppressed)


class Lane:
    """Three steps one after another; several lanes may share clock, account and provider."""

    def __init__(
        self, steps: Sequence[Step], *, clock: Clock, account: Account, provider: Provider, rng: random.Random
    ) -> None:
        self.result = Result()
        self._clock = clock
        on: Callable[[Step, Record], None] = self._delivered
        for step in reversed(steps):
            mapping = Mapping(step, clock, account, rng, provider, on)
            self.result.steps.insert(0, mapping)
            on = self._into(mapping)
        self._first = self.result.steps[0]

    def arrive(self, when: float, count: float) -> None:
        """A send record of so many recipients."""
        self._clock.at(when, lambda: self._arrived(Record(count, when)))

    def _arrived(self, record: Record) -> None:
        self.result.arrived += record.count
        self._first.put(record)

    def _into(self, following: Mapping) -> Callable[[Step, Record], None]:
        def passed(step: Step, record: Record) -> None:
            suppressed = record.count * (1 - step.passed)
            self.result.suppressed += suppressed
            self.result.inside_s += suppressed * (self._clock.now - record.born)
            parts = ceil(record.count / step.record)
            for _ in range(parts):
                following.put(Record(record.count * step.passed / parts, record.born))

        return passed

    def _delivered(self, _step: Step, record: Record) -> None:
        wait = self._clock.now - record.born
        self.result.delivered += record.count
        self.result.inside_s += record.count * wait
        self.result.ended_s = self._clock.now
        self.result.waits.append((wait, record.count))


def steady(lane: Lane, *, rate: float, chunk: float, seconds: float, rng: random.Random) -> None:
    """Poisson arrivals of chunks, so many recipients a second in the mean."""
    when = rng.expovariate(rate / chunk)
    while when < seconds:
        lane.arrive(when, chunk)
        when += rng.expovariate(rate / chunk)


def broadcast(lane: Lane, *, recipients: int, chunk: int, at: float = 0.0) -> None:
    """Everything at once."""
    for start in range(0, recipients, chunk):
        lane.arrive(at, min(chunk, recipients - start))
