"""Costs and limits follow the load, the deployment's own configuration, and the quotas of AWS."""

import re
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from infra.cdk.examples import ENVIRONMENTS, PROD, SMALL
from lab.capacity import messages
from lab.capacity.costs import (
    DAYS_A_MONTH,
    INTERFACE_ENDPOINTS,
    a_month,
    by_the_hour,
    for_a_million,
    poller_units,
    total,
)
from lab.capacity.directories import in_opensearch, in_state
from lab.capacity.directories import measured as state_ratios
from lab.capacity.figures import Trust
from lab.capacity.limits import HEADROOM, NODE_VCPUS, first, limits, look_ups_s, raised_for
from lab.capacity.plan import STEPS, Plan, functions, recipients_s
from lab.capacity.prices import PRICES, REGION, SURCHARGE, at_most, price
from lab.capacity.quotas import QUOTAS, quota, sns_publish
from lab.capacity.report import own_document_records
from lab.capacity.service_times import NOT_OVERLAPPED, VCPU_MB, ServiceTimes, Time, measured
from lab.capacity.workload import Workload, own_documents, result_item, sizes
from masscomm.directory.own_documents import INDICES
from masscomm.domain.email_pauses import HOURS
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.time_limits import REGISTERED_SENDS_KEPT_S
from masscomm.kafka import topics
from tests.support.inputs.service_times import PROVIDER_S

LOAD = Workload(notifications_s=10_000)
RATES = (1_000, 10_000, 50_000)
SNAPSHOTS = Path(__file__).parents[1] / "infra" / "snapshots"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_has_a_bill_and_limits(name: str, times: ServiceTimes) -> None:
    plan = Plan.of(ENVIRONMENTS[name])
    costs = a_month(plan)
    assert all(cost.dollars >= 0 for cost in costs)
    assert total(costs) > 0
    assert all(limit.used > 0 and limit.most > 0 for limit in limits(LOAD, plan, times, PROVIDER_S))
    assert plan.environment.opensearch.instance_type in NODE_VCPUS


def test_the_smallest_environment_costs_at_most_250_a_month() -> None:
    """The goal holds even if each price that was only found for us-east-1 has the surcharge."""
    assert total(a_month(Plan.of(SMALL), at_most)) <= 250
    streaming = replace(SMALL, spark=replace(SMALL.spark, every_minutes=None))
    assert total(a_month(Plan.of(streaming), at_most)) <= 330


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_budget_is_above_the_idle_bill(name: str) -> None:
    """An alarm for each month in which nothing is sent would hide the others."""
    environment = ENVIRONMENTS[name]
    assert total(a_month(Plan.of(environment), at_most)) < environment.budget_usd


def test_a_price_found_elsewhere_is_surcharged() -> None:
    assert at_most("msk.kafka.t3.small") == price("msk.kafka.t3.small")
    assert at_most("opensearch.t3.small.search") == pytest.approx(SURCHARGE * price("opensearch.t3.small.search"))


def test_a_larger_environment_costs_more() -> None:
    months = [total(a_month(Plan.of(environment))) for environment in ENVIRONMENTS.values()]
    assert months == sorted(months)


def test_costs_by_use_grow_with_the_use(times: ServiceTimes, plan: Plan) -> None:
    def paid(load: Workload) -> float:
        return total(for_a_million(load, plan, times, PROVIDER_S))

    assert paid(replace(LOAD, allowed=0.5)) < paid(LOAD)
    assert paid(replace(LOAD, email=0.0)) < paid(LOAD) < paid(replace(LOAD, email=0.5))
    assert paid(LOAD) < paid(replace(LOAD, devices=2.0))


def test_each_push_to_each_device_is_charged(times: ServiceTimes, plan: Plan) -> None:
    def pushes(devices: float) -> float:
        costs = for_a_million(replace(LOAD, devices=devices), plan, times, PROVIDER_S)
        return next(cost.dollars for cost in costs if cost.component == "push (SNS)")

    assert pushes(2.0) == pytest.approx(2 * pushes(1.0))


def test_receipts_are_charged_as_far_as_they_are_reported(times: ServiceTimes, plan: Plan) -> None:
    def paid(**changed: Any) -> dict[str, float]:
        configured = Plan.of(replace(PROD, **changed))
        return {cost.component: cost.dollars for cost in for_a_million(LOAD, configured, times, PROVIDER_S)}

    all_, half, none = paid(), paid(receipts_percent=50), paid(receipts=False)
    assert half["push reports (logs)"] == pytest.approx(all_["push reports (logs)"] / 2)
    for component in ("push reports (logs)", "Lambda, receipts", "Kafka, between zones"):
        assert none[component] < half[component] < all_[component]
    assert none["push reports (logs)"] == 0


def test_results_of_single_sends_cost_70_cents_a_million() -> None:
    """Of a send to one, one outcome record without a receipt: its write, and its item for as long as a send's."""
    written = ceil(result_item() / 1_024) * price("dynamodb_write_unit")
    months = REGISTERED_SENDS_KEPT_S / 86_400 / DAYS_A_MONTH
    assert 1e6 * (written + result_item() / 1e9 * months * price("dynamodb_gb_month")) <= 0.70


def test_each_kind_of_own_document_has_its_record() -> None:
    rows = [line.strip("| ").split(" | ") for line in own_document_records().splitlines()[2:]]
    assert {row[0]: int(row[2]) for row in rows} == {f"`{index}`": size for index, size in own_documents().items()}
    assert own_documents().keys() == set(INDICES)


def test_standby_costs_as_much_as_the_database() -> None:
    def databases(*, multi_az: bool) -> float:
        environment = replace(PROD, database=replace(PROD.database, multi_az=multi_az))
        (cost,) = (cost for cost in a_month(Plan.of(environment)) if cost.component.startswith("databases"))
        return cost.dollars

    assert 1.8 * databases(multi_az=False) < databases(multi_az=True) <= 2 * databases(multi_az=False)


def test_a_million_by_use_costs_the_same_at_every_rate(times: ServiceTimes, plan: Plan) -> None:
    paid = [total(for_a_million(Workload(notifications_s=rate), plan, times, PROVIDER_S)) for rate in RATES]
    assert paid == pytest.approx([paid[0]] * len(paid))


def test_fixed_costs_of_a_million_fall_with_use(times: ServiceTimes, plan: Plan) -> None:
    shares = [
        total(by_the_hour(Workload(notifications_s=rate), plan, times, PROVIDER_S, hours_a_day=hours))
        for rate, hours in ((1_000, 1), (1_000, 24), (10_000, 24))
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(24 * shares[1])


def test_provisioned_environments_are_charged() -> None:
    def warm(provisioned: int) -> float:
        costs = a_month(Plan.of(replace(PROD, provisioned=provisioned)))
        return next(cost.dollars for cost in costs if cost.component == "functions kept warm")

    assert warm(0) == 0
    # The charge for SnapStart snapshots does not depend on the number of provisioned environments.
    one_more = warm(2) - warm(1)
    assert warm(3) - warm(2) == pytest.approx(one_more)
    assert warm(1) > one_more > 0


@pytest.mark.parametrize("rate", RATES)
def test_a_limit_that_is_raised_gives_way_to_the_next(rate: float, times: ServiceTimes, plan: Plan) -> None:
    load = Workload(notifications_s=rate)
    raised, changes = raised_for(load, plan, times, PROVIDER_S)
    assert changes
    assert first(limits(load, raised, times, PROVIDER_S)).share <= HEADROOM
    shares = [change.limit.share for change in changes]
    assert shares == sorted(shares, reverse=True)
    assert changes[0].limit.name == first(limits(load, plan, times, PROVIDER_S)).name
    assert total(a_month(raised)) >= total(a_month(plan))


def test_a_limit_is_met_at_the_rate_that_the_model_names(times: ServiceTimes, plan: Plan) -> None:
    load = replace(LOAD, critical_s=0.0)
    for before in limits(load, plan, times, PROVIDER_S):
        if not before.grows:
            continue
        at = replace(load, notifications_s=before.met_at(load))
        (after,) = (limit for limit in limits(at, plan, times, PROVIDER_S) if limit.name == before.name)
        assert after.share == pytest.approx(1)


def test_nodes_without_an_index_copy_add_no_capacity(times: ServiceTimes, plan: Plan) -> None:
    def vcpus(copies: int) -> float:
        found = limits(LOAD, replace(plan, copies=copies), times, PROVIDER_S)
        return next(limit.most for limit in found if limit.name.startswith("OpenSearch"))

    assert vcpus(1) == NODE_VCPUS[PROD.opensearch.instance_type]
    assert vcpus(plan.data_nodes) == vcpus(100) == vcpus(1) * plan.data_nodes


def test_limit_that_cannot_be_raised_is_named(times: ServiceTimes, plan: Plan) -> None:
    with pytest.raises(ValueError, match=r"environments from nothing in 10 s.*cannot be raised"):
        raised_for(Workload(notifications_s=1_000_000), plan, times, PROVIDER_S)


def test_more_of_anything_never_slows_a_step(times: ServiceTimes, plan: Plan) -> None:
    for step in STEPS:
        now = recipients_s(step, LOAD, plan, times, PROVIDER_S)
        for more in (
            plan.with_partitions(step, plan.partitions[step] * 2).with_pollers(step, 100),
            plan.with_memory(step, VCPU_MB),
        ):
            assert recipients_s(step, LOAD, more, times, PROVIDER_S) > now
    few = plan.with_pollers("delivery", 1)
    assert few.environments("delivery") == 5
    assert plan.environments("delivery") == plan.partitions["delivery"]


def test_part_of_a_vcpu_slows_processor_time_only() -> None:
    time = Time(wall_s=0.3, cpu_s=0.1)
    assert time.at(VCPU_MB) == pytest.approx(0.3)
    assert time.at(2 * VCPU_MB) == pytest.approx(0.3)
    assert time.at(VCPU_MB / 4) == pytest.approx(0.2 + 0.4)


def test_slice_calls_the_provider_in_waves(times: ServiceTimes) -> None:
    """Provider calls of a slice run in parallel, but their computation overlaps only in part."""
    each = times.lines["delivery"].recipient.at(VCPU_MB)
    assert times.slice_s(100, 0.0, VCPU_MB) == pytest.approx(100 * each)
    assert times.slice_s(100, 1.0, VCPU_MB) == pytest.approx(7 * (1.0 + each) + NOT_OVERLAPPED * 100 * each)


def test_plan_agrees_with_the_deployment(plan: Plan) -> None:
    (delivery,) = (topic for topic in topics.chain_topics() if topic.name == topics.DELIVERY)
    assert plan.partitions["delivery"] == delivery.partitions * PROD.kafka.partitions_factor
    more = Plan.of(replace(PROD, kafka=replace(PROD.kafka, partitions_factor=8), pollers=3))
    assert more.partitions["delivery"] == 8 * delivery.partitions
    assert more.pollers["delivery"] == 3


def test_raised_partitions_count_towards_the_cluster(plan: Plan) -> None:
    more = plan.with_partitions("delivery", plan.partitions["delivery"] + 10)
    assert more.bulk_partitions - plan.bulk_partitions == 10 * len(BROADCASTS) * PROD.kafka.replication_factor


def test_records_are_weighed_by_the_codec() -> None:
    few, many = sizes(LOAD), sizes(replace(LOAD, devices=3.0))
    # the outcome has a message id for each device
    assert many.records["outcome.delivery"] > few.records["outcome.delivery"]
    assert many.records["delivery"] == few.records["delivery"]
    assert many.ledger_units > few.ledger_units
    assert "outcome.preference" not in sizes(replace(LOAD, allowed=1.0)).records


def test_priced_interface_endpoints_are_the_deployed_ones() -> None:
    listed = (SNAPSHOTS / "prod" / "network.txt").read_text()
    (count,) = re.findall(r"(\d+) AWS::EC2::VPCEndpoint\b", listed)
    assert int(count) - 2 == INTERFACE_ENDPOINTS  # the two gateway endpoints, of S3 and DynamoDB, are free


def test_the_mappings_of_a_lane_share_poller_units_ten_to_one() -> None:
    listed = (SNAPSHOTS / "prod" / "functions.txt").read_text()
    (mappings,) = re.findall(r"^\s*(\d+) AWS::Lambda::EventSourceMapping\b", listed, flags=re.MULTILINE)
    assert int(mappings) == 41
    # One is of SQS. 35 mappings of the bulk and small lanes share four units, five of the critical lane share one
    assert poller_units(PROD) == 5


def test_one_topic_for_captured_tables_saves_no_unit() -> None:
    bulk = {
        name: entry.event_source.topics
        for name, entry in functions().items()
        if entry.event_source and entry.lane is Lane.BULK
    }
    mappings, unit = sum(map(len, bulk.values())), quota("pollers_a_unit")
    tables = [topic for topic in bulk["cdc_consumer"] if ".public." in topic]
    assert len(tables) == 4
    assert ceil((mappings - len(tables) + 1) / unit) == ceil(mappings / unit)


def test_every_figure_names_its_source() -> None:
    for figure in (*PRICES.values(), *QUOTAS.values(), sns_publish("eu-central-1")):
        assert figure.value > 0
        assert all((figure.unit, figure.region, figure.source, re.fullmatch(r"\d{4}-\d\d", figure.read)))
        assert figure.trust in Trust


@pytest.mark.parametrize("rate", [100, 10_000, 200_000])
def test_tasks_answer_look_ups_while_one_is_lost(rate: float, times: ServiceTimes) -> None:
    load = Workload(notifications_s=rate)
    found = in_state(Plan.of(PROD), load, times, state_ratios())
    assert found.tasks >= 2
    assert found.vcpus <= HEADROOM * (found.tasks - 1)
    assert found.vcpus < sum(look_ups_s(load, times))
    assert found.dollars > in_opensearch(Plan.of(PROD))


# The prices that were not found for eu-central-1.
ELSEWHERE = {
    *("between_zones_gb", "internet_gb_10tb", "internet_gb_50tb", "internet_gb_150tb", "internet_gb_more"),
    *("dynamodb_gb_month", "dynamodb_read_unit", "dynamodb_write_unit"),
    *("lambda_event_poller_unit_hour", "lambda_provisioned_gb_s", "lambda_snapshot_gb_s"),
    *("msk.kafka.m7g.large", "msk.kafka.m7g.xlarge", "msk_connect_hour", "msk_gb_month"),
    *("opensearch.m7g.medium.search", "opensearch.r7g.large.search", "opensearch.r7g.xlarge.search"),
    *("opensearch.t3.medium.search", "opensearch.t3.small.search", "opensearch_gb_month"),
    *("rds.r7g.large", "rds.r7g.xlarge", "rds.t4g.medium", "rds_proxy_vcpu_hour"),
}


def test_prices_of_another_region_are_listed() -> None:
    """Their upper bound has a surcharge. Remove a price from the list that was found for the region."""
    assert {name for name, figure in PRICES.items() if figure.region != REGION} == ELSEWHERE
    assert all(at_most(name) == pytest.approx(SURCHARGE * price(name)) for name in ELSEWHERE)


def test_unlisted_sns_region_has_the_lowest_quota() -> None:
    assert sns_publish("eu-west-3").value < sns_publish("eu-central-1").value < sns_publish("us-east-1").value


def test_measured_times_are_plausible() -> None:
    times = measured()
    for line in times.lines.values():
        assert line.recipient.wall_s > 0
        assert line.at(500, 512) > line.at(500, VCPU_MB) > line.at(1, VCPU_MB)
    assert [one.provider_ms for one in times.slices] == sorted(one.provider_ms for one in times.slices)


def test_sms_cost_their_segments() -> None:
    """By the dated prices of the local stack: a segment to Germany costs ten cents."""
    day, found = messages.sms_prices()
    assert day == "2026-12-01"
    assert [each.dollars for each in found] == [100_000 * each.segments for each in found]
    assert [(each.encoding, each.characters) for each in found if each.segments == 1] == [("GSM-7", 160), ("UCS-2", 70)]


def test_requests_of_messages_are_those_of_the_adapters() -> None:
    """A group of SMS writes one item; a counted record two in a transaction, and its check reads each hour."""
    units = [messages.reserved_cost(), messages.given_back_cost(), messages.counted_emails()]
    assert [(each.reads, each.writes) for each in units] == [(0, 1), (0, 2), (1 + HOURS, 4)]
    assert units[0].dollars() == pytest.approx(1e6 * price("dynamodb_write_unit"))
