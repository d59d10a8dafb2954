"""The simulation obeys the laws of queueing and the rules of Kafka, Lambda and quotas."""

import random
from dataclasses import replace
from math import inf

import pytest

from lab.capacity.comparison import wait_in_front_s
from lab.capacity.simulation import Account, Calls, Clock, Lane, Provider, Result, Step, broadcast, steady

CHECK = Step(name="check", partitions=8, batch=4, record=500, invocation_s=0.01, recipient_s=1e-4, passed=0.8)
CALLS = Calls(workers=16, slice_size=100, cpu_s=0.001, latency_s=0.02, per_recipient=1.25)
DELIVER = Step(
    name="deliver", partitions=8, batch=4, record=500, invocation_s=0.02, recipient_s=0.0, pollers=(2, 2), calls=CALLS
)


class Played:
    """A simulation of lanes that share one account's concurrency and one provider."""

    def __init__(self, *, rate: float = inf, concurrency: float = inf, seed: int = 1) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a simulation
        self.clock, self.account, self.provider = Clock(), Account(concurrency), Provider(rate)

    def lane(self, *steps: Step) -> Lane:
        return Lane(
            steps or (CHECK, DELIVER), clock=self.clock, account=self.account, provider=self.provider, rng=self.rng
        )


def of_a_broadcast(recipients: int, *steps: Step, rate: float = inf, concurrency: float = inf, seed: int = 1) -> Result:
    played = Played(rate=rate, concurrency=concurrency, seed=seed)
    lane = played.lane(*steps)
    broadcast(lane, recipients=recipients, chunk=5_000)
    played.clock.run()
    return lane.result


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_simulated_recipient_ends_once(seed: int) -> None:
    played = Played(rate=5_000, concurrency=5, seed=seed)
    lane = played.lane()
    broadcast(lane, recipients=12_345, chunk=5_000)
    steady(lane, rate=900, chunk=7, seconds=20, rng=played.rng)
    played.clock.run()
    result = lane.result
    assert result.arrived > 12_345
    assert result.delivered == pytest.approx(result.arrived * CHECK.passed)
    assert result.delivered + result.suppressed == pytest.approx(result.arrived)
    assert sum(count for _, count in result.waits) == pytest.approx(result.delivered)
    assert played.provider.calls == pytest.approx(result.delivered * CALLS.per_recipient)
    assert played.account.used == 0


def test_simulation_obeys_littles_law() -> None:
    """Little's law: recipients in the chain equal their rate times their mean time in it."""
    played = Played()
    lane = played.lane(replace(CHECK, recipient_s=5e-3, passed=0.5), DELIVER)
    steady(lane, rate=1_000, chunk=50, seconds=40, rng=played.rng)
    counted, at, step = 0.0, 0.0, 0.01
    while lane.result.delivered + lane.result.suppressed < lane.result.arrived - 1e-6 or at < 40:
        at += step
        played.clock.run(at)
        counted += (lane.result.arrived - lane.result.delivered - lane.result.suppressed) * step
    arrived_s, stay_s = lane.result.arrived / at, lane.result.mean_s
    assert counted / at == pytest.approx(arrived_s * stay_s, rel=0.03)


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_wait_for_a_partition_agrees_with_queueing_theory(busy: float) -> None:
    """With one partition, one record in a batch and Poisson arrivals, the partition is an M/D/1 queue."""
    service_s = DELIVER.invocation_s + CALLS.latency_s + CALLS.cpu_s
    rate = busy / service_s
    played = Played()
    lane = played.lane(replace(DELIVER, partitions=1, batch=1))
    steady(lane, rate=rate, chunk=1, seconds=20_000 / rate, rng=played.rng)
    played.clock.run()
    assert lane.result.mean_s - service_s == pytest.approx(wait_in_front_s(rate, service_s, 1), rel=0.1)


@pytest.mark.parametrize("rate", [250, 500, 1_000])
def test_provider_rate_determines_the_broadcasts_duration(rate: float) -> None:
    result = of_a_broadcast(20_000, rate=rate)
    calls = 20_000 * CHECK.passed * CALLS.per_recipient
    assert result.ended_s == pytest.approx(calls / rate, rel=0.05)
    assert result.ended_s >= calls / rate


def test_a_partition_has_one_invocation_at_a_time() -> None:
    one = replace(DELIVER, partitions=1, pollers=(10, 10))
    result = of_a_broadcast(10_000, CHECK, one)
    assert result.steps[1].busy_s <= result.ended_s
    spread = of_a_broadcast(10_000, CHECK, replace(one, partitions=64))
    assert spread.ended_s < result.ended_s / 3


def test_evenly_spread_records_end_sooner() -> None:
    uneven = of_a_broadcast(100_000)
    even = of_a_broadcast(100_000, replace(CHECK, even=True), replace(DELIVER, even=True))
    assert even.ended_s < uneven.ended_s
    assert even.delivered == pytest.approx(uneven.delivered)


def test_a_poller_has_five_invocations_at_a_time() -> None:
    few = of_a_broadcast(50_000, CHECK, replace(DELIVER, partitions=64, pollers=(1, 1)))
    more = of_a_broadcast(50_000, CHECK, replace(DELIVER, partitions=64, pollers=(4, 4)))
    assert few.steps[1].busy_s <= 5 * few.ended_s
    assert few.ended_s > 2 * more.ended_s


def test_late_pollers_prolong_a_broadcast() -> None:
    at_once = replace(DELIVER, partitions=64, pollers=(8, 8))
    later = replace(at_once, pollers=(1, 8), poller_s=2.0)
    assert of_a_broadcast(50_000, CHECK, at_once).ended_s < of_a_broadcast(50_000, CHECK, later).ended_s


def test_account_concurrency_limits_busy_environments() -> None:
    result = of_a_broadcast(10_000, concurrency=2)
    assert sum(step.busy_s for step in result.steps) <= 2 * result.ended_s
    assert result.delivered == pytest.approx(8_000)


def test_environment_starts_cold_once_unless_provisioned() -> None:
    cold = replace(DELIVER, cold_start_s=1.0)
    result = of_a_broadcast(20_000, CHECK, cold)
    assert 0 < result.steps[1].cold_starts <= cold.partitions
    warm = of_a_broadcast(20_000, CHECK, replace(cold, warm=cold.partitions))
    assert warm.steps[1].cold_starts == 0
    assert warm.ended_s < result.ended_s


def test_simulation_depends_on_its_seed_only() -> None:
    assert of_a_broadcast(20_000).waits == of_a_broadcast(20_000).waits
    assert of_a_broadcast(20_000).waits != of_a_broadcast(20_000, seed=2).waits


def passwords(*, rate: float, broadcast_recipients: int) -> float:
    """Simulate one-time passwords during a broadcast in another lane. Returns their 99th percentile in seconds."""
    played = Played(rate=rate)
    bulk, critical = (
        played.lane(),
        played.lane(replace(CHECK, passed=1.0, partitions=64), replace(DELIVER, partitions=64)),
    )
    broadcast(bulk, recipients=broadcast_recipients, chunk=5_000)
    steady(critical, rate=5, chunk=1, seconds=20, rng=played.rng)
    played.clock.run()
    return critical.result.percentile(0.99)


def test_lanes_share_nothing_but_the_quota() -> None:
    assert passwords(rate=inf, broadcast_recipients=100_000) == pytest.approx(
        passwords(rate=inf, broadcast_recipients=0)
    )
    assert passwords(rate=1_000, broadcast_recipients=100_000) > 2 * passwords(rate=1_000, broadcast_recipients=0)
