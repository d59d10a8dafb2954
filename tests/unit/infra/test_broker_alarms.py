"""The alarms on the brokers hold for each number of brokers."""

import re
from collections import defaultdict
from dataclasses import replace

import pytest

from functions.catalogue import read_catalogue
from local.emulators.alarms import installation
from ops.alarms.rules import Formula
from ops.alarms.table import METRICS_AN_ALARM, rules

# Alarm → the values of two brokers with which it triggers, and with which it does not.
STATES = {
    "kafka-storage": ((80, 20), (79, 20)),
    "kafka-under-min-isr": ((1, 0), (0, 0)),
    "kafka-cpu": ((39, 90), (41, 90)),
    "kafka-credits": ((57, 576), (59, 576)),
}


@pytest.mark.parametrize("brokers", [2, 3, 15])
def test_each_broker_is_watched_by_each_alarm(brokers: int) -> None:
    installed = replace(installation(read_catalogue(generation="g1")), brokers=brokers, burstable_brokers=True)
    watched: defaultdict[str, list[int]] = defaultdict(list)
    for rule in rules(installed):
        if (name := re.sub(r"-\d+$", "", rule.name)) in STATES:
            assert isinstance(rule.of, Formula)
            assert len(rule.series) <= METRICS_AN_ALARM
            watched[name] += [int(each.dimensions["Broker ID"]) for each in rule.series]
            triggers, rests = STATES[name]
            for values, breaches in ((triggers, True), (rests, False)):
                assert rule.breaches(rule.of.operation.result(dict(zip("ab", values, strict=True)))) is breaches
    assert watched == {name: [*range(1, brokers + 1)] for name in STATES}


def test_a_controller_of_any_number_of_brokers_is_enough() -> None:
    """The controller reports 1 and the others 0, so that the largest value is the number of controllers.

    https://docs.aws.amazon.com/msk/latest/developerguide/metrics-details.html
    """
    (rule,) = [each for each in rules(installation(read_catalogue(generation="g1"))) if each.name == "kafka-controller"]
    assert [series.statistic for series in rule.series] == ["Maximum"]
    assert (rule.breaches(0), rule.breaches(1)) == (True, False)
