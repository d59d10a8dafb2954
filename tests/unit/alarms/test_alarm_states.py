"""The emulated CloudWatch evaluates rules as CloudWatch does, and answers DescribeAlarms to its client."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from local.devstack.service import AWS_CREDENTIALS
from local.emulators.cloudwatch import PATH, PREFIX, AlarmStates, Samples
from masscomm.operations.alarms import Alarm, AlarmState, CloudWatchAlarms
from ops.alarms.rules import LARGEST, LOST, RATIO, TOTAL, Formula, Operation, Rule, Series

MINUTE = 60.0


def series(name: str, statistic: str = "Sum") -> Series:
    return Series(namespace="masscomm", name=name, statistic=statistic, dimensions={"service": "s"})


class Trial:
    """One alarm on a clock that a test sets, which begins in a full minute."""

    def __init__(self, rule: Rule) -> None:
        self.now_s = 100 * MINUTE
        self.states = AlarmStates([rule], lambda: self.now_s)

    def minute(self, **values: float) -> str:
        """Add a value of each metric in this minute, go to the next one, and return the alarm's state."""
        for name, value in values.items():
            self.states.samples.add(series(name), value, self.now_s)
        self.now_s += MINUTE
        self.states.evaluate()
        (alarm,) = self.states.describe(PREFIX)
        return str(alarm["StateValue"])


def rule(of: Series | Formula | None = None, **options: Any) -> Rule:
    return Rule("a", "kafka", "Something happens.", of or series("errors"), 5, **options)


def test_enough_breaching_minutes_trigger_and_the_others_end_it() -> None:
    trial = Trial(rule(periods=5, most=3))
    trial.minute(errors=9)  # The minute of the start is not full.
    assert [trial.minute(errors=value) for value in (5, 4, 6, 7)] == ["OK", "OK", "OK", "ALARM"]
    assert [trial.minute(errors=0) for _ in range(3)] == ["ALARM", "OK", "OK"]


def test_minutes_without_data_do_not_breach_by_default() -> None:
    trial = Trial(rule(periods=2))
    trial.minute()
    assert [trial.minute(errors=9), trial.minute(errors=9), trial.minute()] == ["OK", "ALARM", "OK"]


def test_missing_data_breaches_if_the_rule_wants_it() -> None:
    """Before there are enough minutes, the state is not known: nothing has run long enough to be missing."""
    trial = Trial(rule(periods=2, missing_data_alarms=True))
    trial.minute()
    assert [trial.minute(), trial.minute(), trial.minute(errors=0)] == ["INSUFFICIENT_DATA", "ALARM", "OK"]


def test_time_in_which_the_machine_slept_is_unknown() -> None:
    trial = Trial(rule(periods=2, missing_data_alarms=True))
    for _ in range(4):
        state = trial.minute(errors=0)
    assert state == "OK"
    trial.now_s += 60 * MINUTE
    assert trial.minute() == "INSUFFICIENT_DATA"


def test_a_threshold_may_be_a_lower_bound() -> None:
    trial = Trial(rule(periods=1, below=True))
    trial.minute(errors=9)
    assert [trial.minute(errors=5), trial.minute(errors=4)] == ["OK", "ALARM"]


@pytest.mark.parametrize(
    ("operation", "values", "expected"),
    [
        (TOTAL, {"a": 1.0, "b": 2.0}, 3),
        (TOTAL, {}, None),
        (LARGEST, {"a": 1.0, "b": 2.0}, 2),
        (LARGEST, {}, None),
        (RATIO, {"part": 1.0, "whole": 4.0}, 0.25),
        (RATIO, {"part": 1.0, "whole": 0.0}, 0),
        (RATIO, {"part": 1.0}, None),
        (RATIO, {"whole": 4.0}, None),
        (LOST, {"lost0": 1.0, "sent": 3.0}, 0.25),
        (LOST, {"sent": 3.0}, None),
        (LOST, {"lost0": 0.0}, 0),
        (LOST, {}, None),
    ],
)
def test_operations_compute_the_value_of_their_expression(
    operation: Operation, values: dict[str, float], expected: float | None
) -> None:
    """An operation with an operand that has no value has no value, as in CloudWatch's metric math."""
    assert operation.result(values) == expected


def test_a_formula_reads_the_metrics_of_one_minute() -> None:
    share = Formula(operation=RATIO, used={"part": series("failed"), "whole": series("sent")}, label="share")
    trial = Trial(Rule("a", "kafka", "m", share, 0.5, periods=1))
    trial.minute()
    assert [trial.minute(failed=5, sent=10), trial.minute(failed=5), trial.minute(sent=1)] == ["ALARM", "OK", "OK"]


@pytest.mark.parametrize(
    ("statistic", "expected"), [("Sum", 5050), ("Average", 50.5), ("Minimum", 1), ("Maximum", 100), ("p99", 99)]
)
def test_statistics_of_a_minute(statistic: str, expected: float) -> None:
    samples = Samples(2)
    for value in range(1, 101):
        samples.add(series("a"), value, 61.0)
    assert samples.value(series("a", statistic), 1) == expected
    assert samples.value(series("a", statistic), 2) is None
    with pytest.raises(ValueError, match="mode"):
        samples.value(series("a", "mode"), 1)


def test_minutes_that_no_alarm_reads_are_dropped() -> None:
    samples = Samples(2)
    for minute in range(4):
        samples.add(series("a"), 1, minute * MINUTE)
    assert [samples.value(series("a"), minute) for minute in range(4)] == [None, None, 1, 1]


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("credentials")
async def test_the_functions_client_reads_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter of the deployment reads the emulated CloudWatch, and only alarms with its prefix."""
    trial = Trial(rule(periods=1))
    trial.minute()
    trial.minute(errors=9)
    application = web.Application()
    application.add_routes(trial.states.routes())
    async with TestServer(application) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", str(server.make_url(PATH)))
        found = await asyncio.to_thread(CloudWatchAlarms(PREFIX).states)
        others = await asyncio.to_thread(CloudWatchAlarms("masscomm-prod-").states)
        async with aiohttp.ClientSession() as session, session.post(server.make_url(PATH)) as refused:
            assert refused.status == 400
    assert found == [
        Alarm(
            name="a",
            state=AlarmState.ALARM,
            since_ms=int(trial.now_s * 1000),
            description="Something happens.",
            runbook="kafka",
        )
    ]
    assert others == []
