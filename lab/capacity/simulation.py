"""Simulates the path of notifications through all functions in virtual time: topics, partitions, event pollers,
environments, the provider.

    arrivals → send ─▶ preference_checker ─▶ build ─▶ builder ─▶ delivery ─▶ delivery ─▶ provider

One invocation at a time consumes a partition; a batch has records of one partition; a mapping runs at most five
invocations a poller and at most the account's concurrency; a new environment starts cold. Delivery processes its
records, slices (recipients recorded together) and calls in the same order as functions/delivery. Calls above the
provider's quota wait for their turn at the provider (in reality they are refused and retried, with the same effect on
the rate).

Failures, redeliveries, rebalances, leases, and delays of Kafka beyond the measured time are not simulated. The same
seed results in the same figures: the simulation does not read the machine's clock.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from infra.cdk.concurrency import INVOCATIONS_A_POLLER

# Numbers of recipients or calls that are smaller than this are rounding errors.
_NOTHING = 1e-6


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The provider calls of one environment. The calls of a slice (recipients recorded together) end before those of
    the next slice begin.
    """

    workers: int  # The number of calls that run concurrently.
    slice_size: int
    # The processor time of a call in seconds. The environment has one processor, so processor times of calls add up.
    cpu_s: float
    latency_s: float  # The provider's latency in seconds.
    per_recipient: float
    # The share of the shorter one of processor time and latency that does not overlap with the longer one.
    not_overlapped: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function in one lane (kind of send), with its event source mapping."""

    name: str
    partitions: int
    batch: int  # The maximum number of records in a batch.
    # The maximum number of recipients in a record that the function produces.
    record: int
    invocation_s: float  # The seconds of an invocation without recipients, excluding provider calls.
    # The additional seconds for each recipient, excluding provider calls.
    recipient_s: float
    passed: float = 1.0  # The share of recipients that are not suppressed.
    # The initial and the maximum number of pollers; one poller is added every poller_s seconds.
    pollers: tuple[int, int] = (1, 1)
    poller_s: float = 0.0
    environments: float = inf  # The maximum number of environments of the function.
    warm: int = 0
    cold_start_s: float = 0.0
    calls: Calls | None = None  # The provider calls of delivery; None for other functions.
    # Whether records are distributed round robin and not by a hash of their key.
    even: bool = False


@dataclass(slots=True)
class Record:
    """A record in the simulation, with a number of recipients."""

    count: float  # The number of recipients.
    born: float  # The time at which the send of the record arrived.


class Provider:
    """A provider with one rate of calls for all environments. `burst` is the number of calls that are admitted at
    once.
    """

    def __init__(self, rate: float, burst: float = 0.0) -> None:
        self.rate = rate
        self.calls = 0.0
        self._free = -burst / rate if rate < inf else 0.0
        self._burst_s = burst / rate if rate < inf else 0.0

    def admit(self, calls: float, now: float) -> float:
        """Return the time at which the last of `calls` calls is admitted."""
        self.calls += calls
        if self.rate == inf:
            return now
        self._free = max(self._free, now - self._burst_s) + calls / self.rate
        return max(now, self._free)


class Clock:
    """The virtual time, and the queue of future events."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (when, self._sequence, act))

    def run(self, until: float = inf) -> None:
        """Process events until there are none, or until the given time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, act = heapq.heappop(self._due)
            act()
        if until < inf:
            self.now = max(self.now, until)


@dataclass
class Account:
    """The limit of concurrent invocations that all functions of an account share."""

    concurrency: float = inf
    used: int = 0
    waiting: "deque[Mapping]" = field(default_factory=deque)

    def freed(self) -> None:
        self.used -= 1
        for _ in range(len(self.waiting)):
            self.waiting.popleft().dispatch()


@dataclass(eq=False)
class Mapping:
    """The topic, the event source mapping and the environments of one function."""

    step: Step
    clock: Clock
    account: Account
    rng: random.Random
    provider: Provider
    on: Callable[[Step, Record], None]
    invocations: int = 0
    records: int = 0
    cold_starts: int = 0

    def __post_init__(self) -> None:
        step = self.step
        self._put = 0
        self._busy_s = 0.0
        self._counted_at = 0.0
        self._partitions: list[deque[Record]] = [deque() for _ in range(step.partitions)]
        self._ready: deque[int] = deque()
        self._taken = [False] * step.partitions
        self._running = 0
        self._environments = step.warm
        self._pollers = step.pollers[0]
        if step.poller_s > 0:
            for number in range(step.pollers[0] + 1, step.pollers[1] + 1):
                self.clock.at((number - step.pollers[0]) * step.poller_s, self._one_poller_more)
        else:
            self._pollers = step.pollers[1]

    @property
    def most(self) -> float:
        """Return the maximum number of concurrent invocations with the current pollers."""
        return min(self.step.partitions, self.step.environments, INVOCATIONS_A_POLLER * self.step.pollers[1])

    @property
    def busy_s(self) -> float:
        """Return the time that environments were busy, summed over all environments."""
        self._count(0)
        return self._busy_s

    def put(self, record: Record) -> None:
        """Add a record to the next partition if `step.even` is set, else to a random one, like the hash of a key."""
        number = self._put % self.step.partitions if self.step.even else self.rng.randrange(self.step.partitions)
        self._put += 1
        partition = self._partitions[number]
        partition.append(record)
        if len(partition) == 1 and not self._taken[number]:
            self._ready.append(number)
            self.dispatch()

    def dispatch(self) -> None:
        """Invoke the function for every waiting partition, as far as pollers, environments and the account permit."""
        while self._ready and self._running < min(INVOCATIONS_A_POLLER * self._pollers, self.step.environments):
            if self.account.used >= self.account.concurrency:
                if self not in self.account.waiting:
                    self.account.waiting.append(self)
                return
            number = self._ready.popleft()
            partition = self._partitions[number]
            batch = [partition.popleft() for _ in range(min(self.step.batch, len(partition)))]
            self._taken[number] = True
            self._count(1)
            self.account.used += 1
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
            self.clock.at(self.clock.now + takes, lambda: self._end(number, batch))
        else:
            self.clock.at(self.clock.now + takes, lambda: self._deliver(number, batch, 0, batch[0].count, 0.0))

    def _deliver(self, number: int, batch: Sequence[Record], index: int, remaining: float, of_slice: float) -> None:
        """Start the next wave of provider calls for the record at this index. `of_slice` is the number of remaining
        calls in the slice (recipients recorded together).
        """
        calls = self.step.calls
        assert calls is not None  # noqa: S101 - only a step with calls comes here
        now = self.clock.now
        spent = 0.0
        if of_slice <= _NOTHING:
            recipients = min(calls.slice_size, remaining)
            remaining -= recipients
            of_slice = recipients * calls.per_recipient
            spent = recipients * self.step.recipient_s
        wave = min(calls.workers, of_slice)
        of_slice -= wave
        admitted = self.provider.admit(wave, now + spent)
        computed, waited = wave * calls.cpu_s, calls.latency_s + calls.cpu_s
        lost = calls.not_overlapped * min(computed, calls.latency_s)
        done = max(now + spent + computed, admitted + waited) + lost
        if of_slice > _NOTHING or remaining > _NOTHING:
            self.clock.at(done, lambda: self._deliver(number, batch, index, remaining, of_slice))
        elif index + 1 < len(batch):
            self.clock.at(done, lambda: self._next(number, batch, index))
        else:
            self.clock.at(done, lambda: self._last(number, batch))

    def _next(self, number: int, batch: Sequence[Record], index: int) -> None:
        self.on(self.step, batch[index])
        self._deliver(number, batch, index + 1, batch[index + 1].count, 0.0)

    def _last(self, number: int, batch: Sequence[Record]) -> None:
        self.on(self.step, batch[-1])
        self._end(number, batch)

    def _end(self, number: int, batch: Sequence[Record]) -> None:
        self._count(-1)
        self._taken[number] = False
        if self._partitions[number]:
            self._ready.append(number)
        if self.step.calls is None:
            for record in batch:
                self.on(self.step, record)
        self.account.freed()
        self.dispatch()

    def _count(self, more: int) -> None:
        self._busy_s += self._running * (self.clock.now - self._counted_at)
        self._counted_at = self.clock.now
        self._running += more

    def _one_poller_more(self) -> None:
        self._pollers += 1
        self.dispatch()


@dataclass(kw_only=True)
class Result:
    """The results of one lane (kind of send)."""

    arrived: float = 0.0  # The fields arrived, suppressed and delivered are numbers of recipients.
    suppressed: float = 0.0
    delivered: float = 0.0
    # The integral of the number of recipients in progress over time, for the mean by Little's law.
    inside_s: float = 0.0
    ended_s: float = 0.0  # The time of the last delivery.
    # (seconds from arrival to the provider's response, number of recipients) of each delivered record.
    waits: list[tuple[float, float]] = field(default_factory=list)
    steps: list[Mapping] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Return a percentile of the seconds from arrival to delivery, over recipients; 0 if none was delivered."""
        remaining = share * sum(count for _, count in self.waits)
        for wait, count in sorted(self.waits):
            remaining -= count
            if remaining <= _NOTHING:
                return wait
        return 0.0

    @property
    def mean_s(self) -> float:
        """Return the mean seconds from arrival to delivery or suppression."""
        return self.inside_s / (self.delivered + self.suppressed)


class Lane:
    """The functions that process one kind of send, one after another. Several lanes may share clock, account and
    provider.
    """

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
        """Add a send record with this number of recipients to the first topic."""
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
    """Schedule Poisson arrivals of send records with this mean rate of recipients per second."""
    when = rng.expovariate(rate / chunk)
    while when < seconds:
        lane.arrive(when, chunk)
        when += rng.expovariate(rate / chunk)


def broadcast(lane: Lane, *, recipients: int, chunk: int, at: float = 0.0) -> None:
    """Schedule the arrival of all chunks of a broadcast at once."""
    for start in range(0, recipients, chunk):
        lane.arrive(at, min(chunk, recipients - start))
