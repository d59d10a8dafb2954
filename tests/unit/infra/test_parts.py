"""Parts that an environment leaves out have no resource, no permission, no alarm and no price."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any, get_args

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.concurrency import occupied
from infra.cdk.config import ConnectTaskConfig, Environment, Part
from infra.cdk.examples import EXISTING, PROD
from infra.cdk.parts import deployed, left_out
from infra.cdk.resources.network import flows, parties
from infra.metrics_job import _keepers
from lab.capacity.alarms import alarm_metrics
from lab.capacity.costs import CHARGED, a_month
from lab.capacity.plan import Plan
from local.devstack.config import ROOT
from tests.support.cdk.templates import SynthesisedEnvironment, alarm_metrics_of

PARTS: tuple[Part, ...] = get_args(Part)
EVENTS: tuple[Part, ...] = ("events", "incoming_webhooks")


def without(*parts: Part) -> Environment:
    """Return an environment without these parts, on the Kafka cluster of an organisation."""
    return replace(EXISTING, without=parts)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"without": ("events",)}, "incoming_webhooks are events"),
        ({"without": EVENTS, "event_sources": "examples/event_sources.yaml"}, "event_sources need events"),
        ({"without": ("cdc",), "connect_task": ConnectTaskConfig()}, "connect_task is a part of cdc"),
        ({"without": ("metrics",), "console": PROD.console, "api": PROD.api}, "the console shows metrics"),
    ],
)
def test_part_that_another_one_needs_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(EXISTING, **changed)


def test_other_kafka_connect_needs_the_organisations_kafka() -> None:
    """The cluster of a deployment admits `producers` to the topics of producers only."""
    with pytest.raises(ValueError, match=r"needs existing\.kafka"):
        replace(PROD, without=("cdc",))


def test_closing_queues_are_consumed_and_not_sent_to() -> None:
    """The functions' variable has the number of queues that get records."""
    assert deployed(replace(PROD, broadcast_queues=2, closing_queues=2)) == deployed(PROD)
    assert deployed(replace(PROD, broadcast_queues=2)) != deployed(PROD)


def test_functions_of_a_part_are_left_out() -> None:
    known = {entry.name for entry in read_catalogue(generation="g1")}
    assert {entry.name for entry in deployed(EXISTING)} == known
    for parts in (("metrics",), ("incoming_webhooks",), EVENTS, PARTS):
        environment = without(*parts)
        absent = left_out(environment)
        assert absent < known
        assert {entry.name for entry in deployed(environment)} == known - absent
        # webhook_receiver has no reservation.
        assert occupied(environment) < occupied(EXISTING) or parts == ("incoming_webhooks",)
    assert left_out(without("metrics")) & left_out(without(*EVENTS)) == {"webhook_events"}


@pytest.mark.parametrize(
    ("parts", "path"), [(EVENTS, "/v1/webhooks"), (("incoming_webhooks",), "/v1/sources"), (EVENTS, "/v1/events")]
)
def test_routes_of_a_part_are_left_out(parts: tuple[Part, ...], path: str) -> None:
    def routes(environment: Environment) -> set[str]:
        return {route for entry in deployed(environment) for route in entry.routes if f" {path}" in route}

    assert routes(EXISTING)
    assert routes(without(*parts)) == set()


def test_connectors_network_is_left_out_with_it() -> None:
    assert set(parties(EXISTING)) - set(parties(without("cdc"))) == {"connect"}
    assert [flow for flow in flows(without("cdc")) if "connect" in flow] == []


def test_left_out_parts_are_not_on_the_bill() -> None:
    own = {cost.component: cost.dollars for cost in a_month(Plan.of(EXISTING))}
    for parts, lines in (
        (("cdc",), {"change data capture (Kafka Connect)"}),
        (("metrics",), {"metrics (EMR Serverless)"}),
        (EVENTS, set[str]()),
    ):
        left = {cost.component: cost.dollars for cost in a_month(Plan.of(without(*parts)))}
        assert left["alarms, dashboard"] < own["alarms, dashboard"]
        assert own.keys() - left.keys() == lines
        assert sum(left.values()) < sum(own.values())
        assert all(dollars <= own[name] for name, dollars in left.items())


def test_only_deployed_jobs_are_stopped() -> None:
    assert set(_keepers(EXISTING)) == {"streaming-job"}
    assert _keepers(without("metrics")) == {}


def synthesised(environment: Environment, folder: Path) -> SynthesisedEnvironment:
    code = (
        "from dataclasses import replace; from infra.cdk.app import build; from infra.cdk.examples import EXISTING; "
        f"e = replace(EXISTING, without={environment.without!r}, receipts={environment.receipts!r}); "
        f"build(e, outdir={str(folder)!r}).synth()"
    )
    run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return SynthesisedEnvironment(name=environment.name, folder=folder)


def named(made: SynthesisedEnvironment, words: Iterable[str]) -> list[str]:
    """Return the resources that name one of the words anywhere, such as in a permission or in an alarm's metric."""
    return [str(each) for each in made.resources() if any(word in str(each.properties) for word in words)]


# Part → the types of resources that it alone has, and words that only its resources have.
TRACES: dict[str, tuple[set[str], set[str]]] = {
    "cdc": (
        {"AWS::KafkaConnect::Connector", "AWS::KafkaConnect::CustomPlugin", "AWS::KafkaConnect::WorkerConfiguration"},
        {"masscomm/monolith", "MONOLITH_SECRET", "existing connect"},
    ),
    "events": (set(), {"webhook_sender-", "event_matcher-", "events_api", "webhook_events"}),
    "incoming_webhooks": (set(), {"incoming-webhooks", "webhook_receiver", "DOOR_URL"}),
    "metrics": (set(), {"keep-job", "start-run", "streaming-job", "metrics_handler", "sends_stream", "archive-runs"}),
    "receipts": ({"AWS::Logs::SubscriptionFilter", "AWS::SES::ConfigurationSet"}, {"receipts-missed"}),
}


LEFT_OUT = [("cdc",), EVENTS, ("incoming_webhooks",), ("metrics",), ("receipts",), (*PARTS, "receipts")]


@pytest.mark.nightly
@pytest.mark.parametrize("parts", LEFT_OUT, ids=" ".join)
def test_templates_have_nothing_of_a_left_out_part(parts: tuple[str, ...], tmp_path: Path) -> None:
    switches = tuple(part for part in PARTS if part in parts)
    environment = replace(without(*switches), receipts="receipts" not in parts)
    assert_left_out(synthesised(environment, tmp_path), environment, parts)


def assert_left_out(made: SynthesisedEnvironment, environment: Environment, parts: tuple[str, ...]) -> None:
    kinds = {each.type for each in made.resources()}
    for part in TRACES:
        types, words = TRACES[part]
        if part in parts:
            assert kinds.isdisjoint(types), part
            assert named(made, words) == [], part
        else:
            assert types <= kinds, part
    assert alarm_metrics(environment) == alarm_metrics_of(made)
    charged = {cost.component for cost in a_month(Plan.of(environment)) if cost.dollars > 0} - {"custom metrics"}
    assert charged <= {CHARGED[each] for each in kinds & CHARGED.keys()}
    functions = {each.properties.get("FunctionName") for each in made.resources("AWS::Lambda::Function")}
    for alarm in made.resources("AWS::CloudWatch::Alarm"):
        metrics = [each["MetricStat"]["Metric"] for each in alarm.properties.get("Metrics", []) if "MetricStat" in each]
        for metric in metrics or [alarm.properties]:
            watched = [each["Value"] for each in metric.get("Dimensions", []) if each["Name"] == "FunctionName"]
            # Other values refer to a function of a template.
            assert {each for each in watched if isinstance(each, str)} <= functions, alarm
