"""The alarms on the brokers hold for each number of brokers."""

from dataclasses import replace

import pytest

from functions.catalogue import read_catalogue
from local.emulators.alarms import installation
from ops.alarms.rules import Formula
from ops.alarms.table import METRICS_AN_ALARM, rules


@pytest.mark.parametrize("brokers", [3, 6, 15])
def test_one_controller_of_any_number_of_brokers_is_enough(brokers: int) -> None:
    """Each broker reports whether it is the controller, so the average is 1 / brokers while there is one.

    https://aws.amazon.com/blogs/big-data/set-up-production-ready-monitoring-for-amazon-msk-using-cloudwatch-alarms
    """
    installed = replace(installation(read_catalogue(generation="g1")), brokers=brokers)
    found = {each.name: each for each in rules(installed)}
    assert found["kafka-controller"].below
    assert 0 < found["kafka-controller"].threshold < 1 / brokers
    watched = []
    for name, rule in found.items():
        if name.startswith("kafka-storage"):
            assert isinstance(rule.of, Formula)
            assert len(rule.series) <= METRICS_AN_ALARM
            watched += [int(each.dimensions["Broker ID"]) for each in rule.series]
    assert sorted(watched) == [*range(1, brokers + 1)]
