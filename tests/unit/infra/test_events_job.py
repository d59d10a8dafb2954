"""The job of the organisation's own topics is deployed only if it is configured, with permissions for its topics."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infra.cdk.examples import PROD
from masscomm.errors import Stop
from masscomm.kafka.event_sources import GROUP
from masscomm.kafka.topics import DEAD_LETTER, EVENT
from tests.support.cdk.templates import SynthesisedEnvironment, actions, flat, role_statements, targets


def test_job_exists_only_if_it_is_configured(
    environment: SynthesisedEnvironment, replacing: SynthesisedEnvironment
) -> None:
    assert not [each for each in environment.resources("") if each.stack == "events"]
    (application,) = (each for each in replacing.resources("AWS::EMRServerless::Application") if each.stack == "events")
    assert application.properties["Name"] == "masscomm-replacing-events"


def test_job_may_read_its_topics_and_write_events(replacing: SynthesisedEnvironment) -> None:
    may: dict[str, set[str]] = {}
    for resource, statement in role_statements(replacing):
        for action in actions(statement) if resource.stack == "events" else ():
            service, _, name = action.partition(":")
            if service == "kafka-cluster":
                may.setdefault(name, set()).update(target.rpartition("/")[2] for target in targets(statement))
    own = {"shop.orders.*", "bookings"}
    assert may["ReadData"] == own
    assert may["WriteData"] == {EVENT, DEAD_LETTER}
    assert may["DescribeTopic"] == {*own, EVENT, DEAD_LETTER}
    assert may["AlterGroup"] == may["DescribeGroup"] == {GROUP}
    assert may.keys() == {
        *("Connect", "DescribeCluster", "WriteDataIdempotently"),
        *("ReadData", "WriteData", "DescribeTopic", "AlterGroup", "DescribeGroup"),
    }


def test_job_may_use_no_store(replacing: SynthesisedEnvironment) -> None:
    services = {
        action.partition(":")[0]
        for resource, statement in role_statements(replacing)
        if resource.stack == "events"
        for action in actions(statement)
    }
    # The code and the log of a run, and what starts the run.
    assert services == {"kafka-cluster", "s3", "kms", "logs", "ssm", "emr-serverless", "iam"}


def test_job_reads_the_file_of_its_topics(replacing: SynthesisedEnvironment) -> None:
    (parameter,) = (
        flat(each.properties["Value"])
        for each in replacing.resources("AWS::SSM::Parameter")
        if each.properties["Name"] == "/masscomm-replacing/events-job"
    )
    assert '"mode":"STREAMING"' in parameter
    assert parameter.count("SPARK_EVENT_SOURCES=./sources/event_sources.yaml") == 2
    assert "KAFKA_AUTHENTICATION=aws_msk_iam" in parameter
    assert not re.search("DATABASE|ARCHIVE", parameter)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bootstrap_servers: other:9092", "no route"),
        ("registry: {url: 'http://r', known_subject: s}", "no route"),
        ("topics: []", "unknown fields"),
    ],
)
def test_file_that_cannot_be_deployed_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    mapping = "{type: {value: a.b}, club_id: {value: 1}}"
    path.write_text(f"{text}\nsources:\n- {{name: orders, topics: [orders], mapping: {mapping}}}\n")
    with pytest.raises((Stop, ValueError), match=problem):
        replace(PROD, event_sources=str(path))
