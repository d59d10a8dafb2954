"""The alarms on the brokers hold for each number of brokers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.cdk.config import PROD
from infra.cdk.stacks import alarm_table

DATA: Any = SimpleNamespace(
    kafka=SimpleNamespace(name="cluster"), directory=SimpleNamespace(name="directory"), tables={}
)


@pytest.mark.parametrize("brokers", [3, 6, 15])
def test_one_controller_of_any_number_of_brokers_is_enough(brokers: int) -> None:
    """Each broker reports whether it is the controller, so the average is 1 / brokers while there is one.

    https://aws.amazon.com/blogs/big-data/set-up-production-ready-monitoring-for-amazon-msk-using-cloudwatch-alarms
    """
    environment = replace(PROD, kafka=replace(PROD.kafka, brokers=brokers))
    watches = {each.name: each for each in alarm_table.of_servers(environment, DATA, "0")}
    assert watches["kafka-controller"].below
    assert 0 < watches["kafka-controller"].threshold < 1 / brokers
    watched = []
    for name, watch in watches.items():
        if name.startswith("kafka-storage"):
            assert isinstance(watch.of, cloudwatch.MathExpression)
            metrics = watch.of.using_metrics.values()
            assert len(metrics) <= alarm_table.METRICS_AN_ALARM
            watched += [each.dimensions["Broker ID"] for each in metrics if isinstance(each, cloudwatch.Metric)]
    assert sorted(map(int, watched)) == [*range(1, brokers + 1)]
