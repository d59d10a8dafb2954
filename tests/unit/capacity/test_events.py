"""The limits, needs and costs of events follow the load, and the simulation agrees with the model."""

from dataclasses import replace
from math import inf

import pytest

from infra.cdk.examples import PROD
from lab.capacity.costs import total
from lab.capacity.event_load import EventLoad, EventTimes, event_sizes, measured
from lab.capacity.event_simulation import EventSimulation, rise
from lab.capacity.events import (
    EventPlan,
    batches,
    data_out_gb_month,
    event_limits,
    event_month,
    handshakes_s,
    internet_dollars,
    matcher_batch,
    met_at,
    new_connections,
    raised_for_events,
    reads_s,
    writes_s,
)
from lab.capacity.limits import HEADROOM
from lab.capacity.service_times import ServiceTimes
from masscomm.channels.kept_alive_http import MAX_IDLE

STREAMS = EventLoad(messages_s=50_000, endpoints=10_000)
BATCHES = EventLoad(messages_s=50_000, endpoints=500, is_batched=True)
TIMES = EventTimes(matcher_s=40e-6, message_s=30e-6, request_s=150e-6, handshake_s=800e-6, origin="for tests")


def plan_of(load: EventLoad) -> EventPlan:
    return EventPlan.of(PROD, is_batched=load.is_batched)


@pytest.mark.parametrize("load", [STREAMS, BATCHES])
def test_a_raised_plan_is_below_every_limit(load: EventLoad, times: ServiceTimes) -> None:
    plan, changes = raised_for_events(load, plan_of(load), TIMES, times)
    assert changes
    assert all(limit.share <= HEADROOM for limit in event_limits(load, plan, TIMES, times))


def test_a_limit_is_met_at_the_rate_of_the_model(times: ServiceTimes) -> None:
    """Batches have whole records, so that a share may jump above 1."""
    plan = plan_of(STREAMS)

    def share(name: str, messages_s: float) -> float:
        found = event_limits(replace(STREAMS, messages_s=messages_s), plan, TIMES, times)
        return next(each.share for each in found if each.name == name)

    for limit in event_limits(STREAMS, plan, TIMES, times):
        met = met_at(limit.name, STREAMS, plan, TIMES, times)
        if met < 1e6:
            assert share(limit.name, met) <= 1 < share(limit.name, met * 1.01)


def test_more_partitions_and_larger_batches_send_more(times: ServiceTimes) -> None:
    plan = replace(plan_of(STREAMS), sender_records=10)
    now = batches(STREAMS, plan, TIMES, times).partition_s
    assert batches(STREAMS, replace(plan, sender_records=10 * plan.sender_records), TIMES, times).partition_s > 2 * now
    assert batches(STREAMS, replace(plan, sender_mb=2 * plan.sender_mb), TIMES, times).partition_s > now
    more = replace(plan, partitions=2 * plan.partitions, buckets=256)
    assert more.fullest_share < plan.fullest_share


def test_fullest_partition_has_more_than_its_share() -> None:
    plan = plan_of(STREAMS)
    assert 1 / plan.partitions < plan.fullest_share < 0.25
    assert replace(plan, partitions=1).fullest_share == 1


def test_a_matcher_batch_ends_as_its_events_arrive(times: ServiceTimes) -> None:
    plan = plan_of(STREAMS)
    load = replace(STREAMS, messages_s=20_000)
    events, seconds = matcher_batch(load, plan, TIMES, times)
    assert events == pytest.approx(load.events_s / plan.partitions * seconds)
    assert matcher_batch(replace(load, messages_s=1e6), plan, TIMES, times)[0] == plan.matcher_records
    assert matcher_batch(replace(load, messages_s=1), plan, TIMES, times)[0] == 1


def test_few_endpoints_keep_their_connections(times: ServiceTimes) -> None:
    plan = plan_of(STREAMS)
    assert new_connections(STREAMS, plan, 1) > 1 - MAX_IDLE / STREAMS.endpoints
    own = replace(STREAMS, is_sticky=True)
    assert new_connections(own, plan, 1) < new_connections(STREAMS, plan, 1)
    few = replace(STREAMS, endpoints=100)
    assert new_connections(few, plan, 1) < 0.05
    found = batches(few, plan, TIMES, times)
    assert handshakes_s(few, found) < handshakes_s(STREAMS, batches(STREAMS, plan, TIMES, times)) / 10


def test_needs_grow_with_the_load(times: ServiceTimes) -> None:
    less, plan = replace(STREAMS, messages_s=5_000), plan_of(STREAMS)
    few, many = (batches(load, plan, TIMES, times) for load in (less, STREAMS))
    assert writes_s(less, few) < writes_s(STREAMS, many)
    assert reads_s(less, few) < reads_s(STREAMS, many)
    assert data_out_gb_month(less, few) < data_out_gb_month(STREAMS, many)
    months = [total(event_month(load, plan, TIMES, times)) for load in (less, STREAMS)]
    assert months[0] < months[1]


def test_failed_attempts_cost_writes(times: ServiceTimes) -> None:
    found = batches(STREAMS, plan_of(STREAMS), TIMES, times)
    assert writes_s(replace(STREAMS, failing=0.5), found) > 2 * writes_s(replace(STREAMS, failing=0.0), found)


def test_data_out_is_cheaper_by_the_amount() -> None:
    assert internet_dollars(10_000) == pytest.approx(900)
    assert internet_dollars(60_000) == pytest.approx(900 + 3_400 + 700)
    assert internet_dollars(160_000) == pytest.approx(900 + 3_400 + 7_000 + 500)


def test_messages_share_the_bytes_of_their_record() -> None:
    one, many = event_sizes(1), event_sizes(50)
    assert many.message < one.message
    assert many.stored_result < one.stored_result
    assert one.body > one.event - 200
    assert one.event > 1_000


@pytest.mark.parametrize(
    "load", [replace(STREAMS, messages_s=3_000, endpoints=500), replace(BATCHES, messages_s=9_000)]
)
def test_simulation_processes_a_load_within_the_limits(load: EventLoad, times: ServiceTimes) -> None:
    plan, _ = raised_for_events(load, plan_of(load), TIMES, times)
    played = EventSimulation(load, plan, TIMES, times)
    played.run(2)
    early = played.waiting
    found = played.run(4)
    assert found.occurred == pytest.approx(4 * load.messages_s, rel=0.05)
    assert found.occurred == found.sent + played.waiting
    assert played.waiting < 1.5 * early
    assert 0 < found.percentile(0.5) <= found.percentile(0.99) < 2


def test_a_load_above_a_limit_piles_up(times: ServiceTimes) -> None:
    load = replace(STREAMS, messages_s=4_000)
    plan = replace(plan_of(load), sender_records=10)
    assert met_at("webhook_sender: messages of the fullest partition", load, plan, TIMES, times) < load.messages_s
    played = EventSimulation(load, plan, TIMES, times)
    played.run(2)
    early = played.waiting
    played.run(4)
    assert played.waiting > 1.5 * early


def test_simulation_of_events_depends_on_its_seed(times: ServiceTimes) -> None:
    load = replace(BATCHES, messages_s=2_000)
    one, again, other = (
        EventSimulation(load, plan_of(load), TIMES, times, seed=seed).run(1).waits for seed in (1, 1, 2)
    )
    assert one == again != other


def test_late_pollers_let_messages_wait(times: ServiceTimes) -> None:
    plan, _ = raised_for_events(BATCHES, plan_of(BATCHES), TIMES, times)
    late = rise(BATCHES, plan, TIMES, times, pollers=1, poller_s=10)
    assert late.most > 0
    assert 0 < late.ended_s < inf
    assert rise(BATCHES, plan, TIMES, times, pollers=plan.pollers, poller_s=0).most < late.most
    never = rise(BATCHES, replace(plan, pollers=1), TIMES, times, pollers=1, poller_s=0)
    assert never.ended_s == inf


def test_measured_times_of_events_are_plausible() -> None:
    found = measured()
    assert 0 < found.message_s < found.request_s < found.handshake_s
    assert found.matcher_s < found.request_s
