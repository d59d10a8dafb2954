"""Model and simulation agree where the model's assumptions are true, and the documented figures are up to date."""

from dataclasses import replace

import pytest

from infra.cdk.examples import PROD
from lab.capacity.comparison import (
    critical_wait_s,
    of_a_broadcast,
    of_a_steady_load,
    of_slices,
    partitions_for,
    scene,
    throughput,
    wait_in_front_s,
)
from lab.capacity.plan import STEPS, Plan
from lab.capacity.report import PAGE, tables, written
from lab.capacity.service_times import ServiceTimes, measured
from lab.capacity.workload import Workload
from tests.support.inputs.service_times import PROVIDER_S

LOAD = Workload(notifications_s=1_000)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_broadcast_bound_by_the_quota_agrees_with_the_model(seed: int, times: ServiceTimes, plan: Plan) -> None:
    slow = replace(plan, sns_publish=300)
    compared = of_a_broadcast(LOAD, slow, times, PROVIDER_S, recipients=30_000, seed=seed)
    assert throughput(LOAD, slow, times, PROVIDER_S)[1] == "the provider's quota"
    assert abs(compared.difference) < 0.15


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_broadcast_bound_by_partitions_exceeds_the_model(seed: int, times: ServiceTimes, plan: Plan) -> None:
    """Keys spread records unevenly over partitions, so a broadcast lasts until its fullest partition is consumed."""
    few = replace(plan, sns_publish=1e9).with_partitions("delivery", 4)
    compared = of_a_broadcast(LOAD, few, times, PROVIDER_S, recipients=100_000, seed=seed)
    assert throughput(LOAD, few, times, PROVIDER_S)[1] == "delivery"
    assert 0 <= compared.difference < 0.4


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_busy_environments_of_a_steady_load_agree_with_the_model(seed: int, times: ServiceTimes, plan: Plan) -> None:
    enough = replace(plan, sns_publish=1e9)
    load = replace(LOAD, chunk=500)
    out, *busy = of_a_steady_load(load, enough, times, PROVIDER_S, seconds=120, seed=seed)
    assert abs(out.difference) < 0.05
    # The model assumes full batches; partly filled batches need more invocations.
    assert all(-0.05 < one.difference < 0.8 for one in busy)
    delivery = busy[STEPS.index("delivery")]
    assert delivery.difference < 0.3


def test_comparison_with_one_seed_is_repeatable(times: ServiceTimes, plan: Plan) -> None:
    one, again, another = (
        of_a_broadcast(LOAD, plan, times, PROVIDER_S, recipients=20_000, seed=seed).simulated for seed in (1, 1, 2)
    )
    assert one == again != another


def test_single_one_time_password_takes_three_invocations(times: ServiceTimes, plan: Plan) -> None:
    load = replace(LOAD, critical_s=0.2)
    played = scene(load, Plan.of(replace(PROD, provisioned=64)), times, PROVIDER_S, critical_seconds=60)
    played.clock.run()
    assert played.critical is not None
    assert played.critical.result.percentile(0.5) == pytest.approx(
        critical_wait_s(load, plan, times, PROVIDER_S), rel=0.01
    )


def test_partitions_for_a_wait_are_the_fewest() -> None:
    for rate in (10, 50, 200):
        count = partitions_for(rate, 0.06, 0.006)
        assert wait_in_front_s(rate, 0.06, count) <= 0.006 < wait_in_front_s(rate, 0.06, count - 1)
    assert wait_in_front_s(100, 0.06, 6) == float("inf")


def test_formula_of_a_slice_agrees_with_measurements() -> None:
    assert all(abs(one.difference) < 0.5 for one in of_slices(measured()))


def test_capacity_page_agrees_with_the_model() -> None:
    page = PAGE.read_text()
    assert written(page, tables()) == page, "run `make capacity`"


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the markers"):
        written("nothing", {"costs": "| a table |"})
