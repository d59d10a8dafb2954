"""An environment with two snapshot generations (`g1,g2`): each is captured, consumed and watched.

https://docs.aws.amazon.com/msk/latest/developerguide/mkc-monitoring-overview.html (RunningTaskCount, by ConnectorName)
https://docs.aws.amazon.com/msk/latest/developerguide/consumer-lag.html (EstimatedMaxTimeLag, by group and topic)
"""

import json
from collections import Counter
from typing import Any

from infra.cdk.examples import PROD
from infra.cdk.resources.event_sources import consumer_group
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.debezium import debezium_config, heartbeat_topic
from masscomm.kafka.topics import cdc_topic, cdc_topics
from tests.support.cdk.templates import SynthesisedEnvironment, flat, kafka_mappings, role_statements, targets

GENERATIONS = ("g1", "g2")


def _alarms_on(environment: SynthesisedEnvironment, metric: str) -> list[dict[str, str]]:
    return [
        {each["Name"]: flat(each["Value"]) for each in alarm.properties["Dimensions"]}
        for alarm in environment.resources("AWS::CloudWatch::Alarm")
        if alarm.properties.get("MetricName") == metric
    ]


def _connectors(environment: SynthesisedEnvironment) -> dict[str, dict[str, Any]]:
    return {
        each.properties["ConnectorName"]: each.properties["ConnectorConfiguration"]
        for each in environment.resources("AWS::KafkaConnect::Connector")
    }


def test_each_generation_has_topics_and_a_connector(replacing: SynthesisedEnvironment) -> None:
    made = {each.properties["TopicName"] for each in replacing.resources("AWS::MSK::Topic")}
    assert {topic.name for topic in cdc_topics("g1,g2")} <= made
    connectors = _connectors(replacing)
    assert len(connectors) == len(GENERATIONS)
    for generation, configuration in zip(GENERATIONS, connectors.values(), strict=True):
        assert configuration.items() >= debezium_config(generation, f"masscomm-replacing-{PROD.region}").items()
    assert len({configuration["slot.name"] for configuration in connectors.values()}) == len(GENERATIONS)


def test_functions_read_every_generations_topics(replacing: SynthesisedEnvironment) -> None:
    read = Counter(topic for mapping in kafka_mappings(replacing) for topic in mapping.properties["Topics"])
    tables = {cdc_topic(table, each) for table in captured_tables() for each in GENERATIONS}
    devices = {cdc_topic("devices", each) for each in GENERATIONS}
    others = {cdc_topic(name, each) for name in ("notification", "heartbeat") for each in GENERATIONS}
    # A row of the outbox is in the topic of each generation, and its event is sent once.
    assert (read[cdc_topic("outbox", "g1")], read[cdc_topic("outbox", "g2")]) == (1, 0)
    assert {topic: read[topic] for topic in tables | others} == {
        topic: 2 if topic in devices else 1 for topic in tables | others
    }
    generations = {
        each.properties["Environment"]["Variables"]["CDC_GENERATION"]
        for each in replacing.resources("AWS::Lambda::Function")
        if "CDC_GENERATION" in each.properties.get("Environment", {}).get("Variables", {})
    }
    assert generations == {"g1,g2"}


def test_each_connector_has_an_alarm_of_its_own(replacing: SynthesisedEnvironment) -> None:
    watched = {each["ConnectorName"] for each in _alarms_on(replacing, "RunningTaskCount") if "ConnectorName" in each}
    assert watched == _connectors(replacing).keys()


def test_the_lag_of_each_generations_topics_is_watched(replacing: SynthesisedEnvironment) -> None:
    watched = {(each["Consumer Group"], each["Topic"]) for each in _alarms_on(replacing, "EstimatedMaxTimeLag")}
    for topic in cdc_topics("g1,g2"):
        if "cdc_consumer" in topic.consumers:
            assert (consumer_group("masscomm.cdc_consumer", topic.name), topic.name) in watched
    outbox = cdc_topic("outbox", "g1")
    assert (consumer_group("masscomm.event_matcher", outbox), outbox) in watched
    for generation in GENERATIONS:
        topic_name = cdc_topic("devices", generation)
        assert (consumer_group("masscomm.device_registrar", topic_name), topic_name) in watched


def test_records_dropped_of_any_mapping_raise_an_alarm(replacing: SynthesisedEnvironment) -> None:
    """An alarm on a metric math expression reads at most ten metrics, so several alarms share the mappings.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create-alarm-on-metric-math-expression.html
    """
    watched = Counter(
        flat(dimension["Value"])
        for alarm in replacing.resources("AWS::CloudWatch::Alarm")
        for metric in alarm.properties.get("Metrics", ())
        if metric.get("MetricStat", {}).get("Metric", {}).get("MetricName") == "DroppedEventCount"
        for dimension in metric["MetricStat"]["Metric"]["Dimensions"]
    )
    assert len(watched) == len(list(kafka_mappings(replacing)))
    assert set(watched.values()) == {1}


def test_connectors_may_write_every_generations_topics(replacing: SynthesisedEnvironment) -> None:
    allowed = json.dumps(
        sorted(
            target
            for resource, statement in role_statements(replacing)
            if resource.stack == "cdc" and statement["Effect"] == "Allow"
            for target in targets(statement)
        )
    )
    for topic in (*(each.name for each in cdc_topics("g1,g2")), *map(heartbeat_topic, GENERATIONS)):
        assert f"/{topic}" in allowed, topic
    for name in _connectors(replacing):
        assert f"/connect-{name}" in allowed, name
