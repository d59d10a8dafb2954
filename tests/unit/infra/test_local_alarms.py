"""The local stack knows every alarm of a deployment: it evaluates it, or the documentation says why not."""

from functions.catalogue import read_catalogue
from local.devstack.config import ROOT
from local.emulators.alarms import NOT_EVALUATED, evaluated_rules, installation, reason_not_evaluated
from ops.alarms.rules import MINUTE_S
from ops.alarms.table import rules
from tests.support.cdk.templates import SynthesisedEnvironment

ENTRIES = read_catalogue(generation="g1")
PAGE = (ROOT / "docs" / "observability.md").read_text()


def test_local_alarms_are_those_of_the_deployment(prod: SynthesisedEnvironment) -> None:
    deployed = {
        each.properties["AlarmName"].removeprefix(f"masscomm-{prod.name}-"): each.properties
        for each in prod.resources("AWS::CloudWatch::Alarm")
    }
    local = {rule.name: rule for rule in rules(installation(ENTRIES))}
    assert local.keys() == deployed.keys()
    for name, rule in local.items():
        assert deployed[name]["AlarmDescription"] == rule.description
        assert deployed[name]["EvaluationPeriods"] == rule.periods
        assert deployed[name]["DatapointsToAlarm"] == rule.needed
        if not name.endswith("-connections"):  # They depend on the memory of a database.
            assert deployed[name]["Threshold"] == rule.threshold


def test_alarms_that_are_not_evaluated_are_documented() -> None:
    """The table has each reason, and every reason concerns an alarm."""
    reasons = {rule.name: reason_not_evaluated(rule) for rule in rules(installation(ENTRIES))}
    assert set(NOT_EVALUATED.values()) <= set(reasons.values())
    for name, reason in reasons.items():
        assert reason is None or reason in PAGE, name


def test_evaluated_alarms_have_periods_of_a_minute() -> None:
    assert {series.period_s for rule in evaluated_rules(ENTRIES) for series in rule.series} == {MINUTE_S}
