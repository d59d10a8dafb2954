"""The alarms of an installation: the route, and CloudWatch's answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

from functions.operations_handler.routes.alarms import AlarmsRoute
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.aws import sdk
from masscomm.aws.request import Limits
from masscomm.clock import FixedClock
from masscomm.errors import Retry, Stop
from masscomm.http.problem import Problem
from masscomm.operations.alarms import Alarm, AlarmState, CloudWatchAlarms, InMemoryAlarms, alarms_from_environment

CLOCK = FixedClock(1_795_262_400_000)  # 2026-11-21T12:00:00Z
PREFIX = "masscomm-prod-"


def alarm(name: str, state: AlarmState, since_ms: int = 0) -> Alarm:
    return Alarm(name=name, state=state, since_ms=since_ms, description="d", runbook=None)


def test_ringing_alarms_are_first_the_latest_before_others() -> None:
    alarms = [
        alarm("a", AlarmState.OK, 9),
        alarm("b", AlarmState.INSUFFICIENT_DATA, 8),
        alarm("c", AlarmState.ALARM, 1),
        alarm("d", AlarmState.ALARM, 2),
    ]
    body = AlarmsRoute(InMemoryAlarms(alarms), CLOCK).answer({})
    assert [row["name"] for row in body["rows"]] == ["d", "c", "b", "a"]
    assert body["evaluated"]


def test_without_cloudwatch_the_states_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALARM_PREFIX", raising=False)
    body = AlarmsRoute(alarms_from_environment(), CLOCK).answer({})
    assert body == {"evaluated": False, "rows": [], "generated_at": "2026-11-21T12:00:00Z"}


def test_a_parameter_is_refused() -> None:
    with pytest.raises(Problem) as raised:
        AlarmsRoute(InMemoryAlarms([]), CLOCK).answer({"state": ["ok"]})
    assert raised.value.status == 400


@pytest.fixture
def cloudwatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", REGION)
    with mock_aws():
        yield sdk.client("cloudwatch", Limits(connect_s=1, read_s=1, attempts=1))


def _put(client: Any, name: str, description: str = "d") -> None:
    client.put_metric_alarm(
        AlarmName=name,
        AlarmDescription=description,
        MetricName="m",
        Namespace="masscomm",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanOrEqualToThreshold",
    )


def test_alarms_of_the_installation_alone_are_read(cloudwatch: Any) -> None:
    """Other installations of the account have other prefixes; pages are followed."""
    _put(cloudwatch, f"{PREFIX}failed", "One in five fails. Runbook: docs/runbooks/failed-notifications.md")
    _put(cloudwatch, "masscomm-dev-failed")
    for number in range(120):
        _put(cloudwatch, f"{PREFIX}lag-{number:03}")
    cloudwatch.set_alarm_state(AlarmName=f"{PREFIX}failed", StateValue="ALARM", StateReason="test")
    found = {each.name: each for each in CloudWatchAlarms(PREFIX, cloudwatch).states()}
    assert len(found) == 121
    failed = found["failed"]
    assert (failed.state, failed.description) == (AlarmState.ALARM, "One in five fails.")
    assert failed.runbook == "failed-notifications"
    assert failed.since_ms > 0
    assert found["lag-000"].runbook is None


@pytest.mark.parametrize(
    ("code", "expected"), [("AccessDenied", Stop), ("Throttling", Retry), ("InternalError", Retry)]
)
def test_a_refusal_stops_and_a_passing_error_is_retried(cloudwatch: Any, code: str, expected: type[Exception]) -> None:
    with Stubber(cloudwatch) as stub:
        stub.add_client_error("describe_alarms", code)
        with pytest.raises(expected, match=code):
            CloudWatchAlarms(PREFIX, cloudwatch).states()
