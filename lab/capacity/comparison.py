"""Compares the results of the model and of the simulation for the same plan and service times."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from lab.capacity.limits import environments_used
from lab.capacity.plan import INPUTS, STEPS, Plan, batch_records, functions, pollers_of, recipients_s
from lab.capacity.service_times import NOT_OVERLAPPED, VCPU_MB, ServiceTimes
from lab.capacity.simulation import Account, Calls, Clock, Lane, Provider, Step, broadcast, steady
from lab.capacity.workload import Workload
from masscomm.domain.lanes import Lane as LaneName
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.kafka import topics
from masscomm.kafka.topics import in_lane

SEED = 20261121


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A figure as computed by the model and by the simulation, in one unit."""

    label: str
    model: float
    simulated: float
    unit: str

    @property
    def difference(self) -> float:
        """Return the deviation of the simulation from the model, as a share of the model's figure."""
        return self.simulated / self.model - 1


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Lanes (kinds of sends) with scheduled arrivals, which `clock.run()` simulates. `critical` is None without a
    critical lane.
    """

    clock: Clock
    bulk: Lane
    critical: Lane | None
    provider: Provider


def bulk_steps(
    workload: Workload,
    plan: Plan,
    times: ServiceTimes,
    provider_s: float,
    *,
    poller_s: float = 0.0,
    even: bool = False,
) -> list[Step]:
    """Return the three functions of the bulk lane (preference_checker, builder, delivery) in the sizes of the plan.

    Args:
        poller_s: The seconds until a mapping gets a further poller; 0: all pollers run from the start.
        even: Whether records are spread evenly over the partitions.
    """
    return [
        _step(
            step,
            workload,
            times,
            provider_s,
            partitions=plan.partitions[step],
            pollers=(1 if poller_s else plan.pollers[step], plan.pollers[step]),
            poller_s=poller_s,
            even=even,
            memory_mb=plan.memory_mb[step],
            lane=LaneName.BULK,
        )
        for step in STEPS
    ]


def critical_steps(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> list[Step]:
    """Return the three functions (preference_checker, builder, delivery) of the critical lane, for sends to one
    user, with environments kept warm.
    """
    known = {topic.name: topic.partitions for topic in topics.chain_topics()}
    environment = plan.environment
    return [
        _step(
            step,
            workload,
            times,
            provider_s,
            partitions=known[in_lane(INPUTS[step], LaneName.CRITICAL)] * environment.kafka.partitions_factor,
            pollers=(pollers_of(environment), pollers_of(environment)),
            memory_mb=functions()[f"{step}-critical"].memory_mb,
            lane=LaneName.CRITICAL,
            warm=environment.provisioned,
        )
        for step in STEPS
    ]


def _step(
    step: str,
    workload: Workload,
    times: ServiceTimes,
    provider_s: float,
    *,
    partitions: int,
    pollers: tuple[int, int],
    memory_mb: int,
    lane: LaneName,
    poller_s: float = 0.0,
    even: bool = False,
    warm: int = 0,
) -> Step:
    line = times.lines[step]
    delivers = step == "delivery"
    critical = lane is LaneName.CRITICAL
    each = line.recipient.at(memory_mb)
    return Step(
        name=step,
        partitions=partitions,
        batch=batch_records(step, lane),
        record=RANGE_SIZE,
        invocation_s=line.invocation.at(memory_mb),
        recipient_s=0.0 if delivers else each,
        passed=workload.allowed if step == "preference_checker" and not critical else 1.0,
        pollers=pollers,
        poller_s=poller_s,
        even=even,
        warm=warm,
        cold_start_s=times.cold_start_s[step],
        calls=Calls(
            workers=times.workers,
            slice_size=times.slice_size,
            cpu_s=each,
            latency_s=provider_s,
            per_recipient=workload.devices if critical else workload.calls_a_recipient,
            not_overlapped=NOT_OVERLAPPED,
        )
        if delivers
        else None,
    )


def scene(
    workload: Workload,
    plan: Plan,
    times: ServiceTimes,
    provider_s: float,
    *,
    recipients: int = 0,
    seconds: float = 0.0,
    critical_seconds: float = 0.0,
    poller_s: float = 0.0,
    even: bool = False,
    seed: int = SEED,
) -> Scene:
    """Return a broadcast to `recipients` or a steady load for `seconds`, with one-time passwords for `critical_s`
    seconds.
    """
    rng, clock = random.Random(seed), Clock()  # noqa: S311 - a simulation
    account, provider = Account(plan.lambda_concurrency), Provider(plan.sns_publish, burst=plan.sns_publish)
    steps = bulk_steps(workload, plan, times, provider_s, poller_s=poller_s, even=even)
    bulk = Lane(steps, clock=clock, account=account, provider=provider, rng=rng)
    if recipients:
        broadcast(bulk, recipients=recipients, chunk=workload.chunk)
    if seconds:
        steady(bulk, rate=workload.notifications_s, chunk=workload.chunk, seconds=seconds, rng=rng)
    critical = None
    if critical_seconds:
        steps = critical_steps(workload, plan, times, provider_s)
        critical = Lane(steps, clock=clock, account=account, provider=provider, rng=rng)
        steady(critical, rate=workload.critical_s, chunk=1, seconds=critical_seconds, rng=rng)
    return Scene(clock=clock, bulk=bulk, critical=critical, provider=provider)


def throughput(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> tuple[float, str]:
    """Return (notifications per second, limiting factor) of the plan: its slowest function, or the provider's quota."""
    calls = workload.allowed * workload.calls_a_recipient
    found = {step: recipients_s(step, workload, plan, times, provider_s) for step in STEPS}
    found["the provider's quota"] = plan.sns_publish / calls if calls else inf
    slowest = min(found, key=lambda name: found[name])
    return found[slowest], slowest


def of_a_broadcast(
    workload: Workload,
    plan: Plan,
    times: ServiceTimes,
    provider_s: float,
    *,
    recipients: int,
    poller_s: float = 0.0,
    even: bool = False,
    seed: int = SEED,
) -> Compared:
    """Compare the seconds until the delivery to the last recipient of a broadcast."""
    played = scene(workload, plan, times, provider_s, recipients=recipients, poller_s=poller_s, even=even, seed=seed)
    played.clock.run()
    rate, by = throughput(workload, plan, times, provider_s)
    return Compared(
        label=f"{recipients:,} at once, held up by {by}",
        model=recipients / rate,
        simulated=played.bulk.result.ended_s,
        unit="s",
    )


def of_a_steady_load(
    workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float, *, seconds: float, seed: int = SEED
) -> list[Compared]:
    """Compare the notifications per second and the busy environments of each function in a steady load.

    The first third of the time is not counted, because the load has not yet reached all functions.
    """
    played = scene(workload, plan, times, provider_s, seconds=seconds, seed=seed)
    before: dict[str, float] = {}
    figures: dict[str, float] = {}
    for until in (seconds / 3, seconds):
        played.clock.run(until)
        result = played.bulk.result
        now = {step: mapping.busy_s for step, mapping in zip(STEPS, result.steps, strict=True)}
        now |= {"in": result.arrived, "out": result.delivered + result.suppressed}
        figures = {name: (value - before.get(name, 0.0)) / (seconds * 2 / 3) for name, value in now.items()}
        before = now
    share = figures["out"] / workload.notifications_s
    used = {step: environments_used(step, workload, plan, times, provider_s) * share for step in STEPS}
    return [
        Compared(label="notifications out", model=figures["in"], simulated=figures["out"], unit="/s"),
        *(Compared(label=f"environments busy, {s}", model=used[s], simulated=figures[s], unit="") for s in STEPS),
    ]


def critical_wait_s(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> float:
    """Return the model's seconds from a one-time password's request to the provider's response, without queueing."""
    steps = critical_steps(workload, plan, times, provider_s)
    own = sum(step.invocation_s for step in steps) + sum(step.recipient_s for step in steps)
    calls = [step.calls for step in steps if step.calls is not None]
    computed = sum(each.per_recipient * each.cpu_s for each in calls)
    return own + provider_s + sum(each.cpu_s for each in calls) + NOT_OVERLAPPED * min(computed, provider_s)


def wait_in_front_s(rate: float, service_s: float, partitions: int) -> float:
    """Return the mean seconds that a record waits for its partition, by Pollaczek and Khinchine's formula for M/D/1.

    Records are spread over the partitions at random. The result is infinite if the load exceeds the capacity.
    """
    busy = rate / partitions * service_s
    return inf if busy >= 1 else busy * service_s / (2 * (1 - busy))


def partitions_for(rate: float, service_s: float, wait_s: float) -> int:
    """Return the smallest number of partitions with which the mean wait of a record is at most wait_s."""
    partitions = 1
    while wait_in_front_s(rate, service_s, partitions) > wait_s:
        partitions += 1
    return partitions


def of_slices(times: ServiceTimes) -> Sequence[Compared]:
    """Compare the formula for the time of a slice (recipients published to together) with times measured on this
    machine.
    """
    return [
        Compared(
            label=f"a slice of {times.slice_size}, provider answers in {one.provider_ms:.0f} ms",
            model=times.slice_s(times.slice_size, one.provider_ms / 1000, VCPU_MB),
            simulated=one.slice_s,
            unit="s",
        )
        for one in times.slices
    ]
