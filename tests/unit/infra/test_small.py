"""The smallest environment has the whole system, with the resources that cost least while nothing is sent."""

import json
import re
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.examples import SMALL
from infra.cdk.images import images
from infra.cdk.parts import deployed
from infra.cdk.profiles import METRICS_READER, PROFILES, Warmth
from infra.cdk.resources.registry import CONNECTIONS
from masscomm.cdc.debezium import debezium_config, heartbeat_topic, largest_record
from tests.support.cdk.templates import (
    Resource,
    SynthesisedEnvironment,
    actions,
    flat,
    kafka_mappings,
    role_statements,
    targets,
    task_definition,
)

# Less than the memory of an instance class divided by 9,531,392, because RDS' own processes reserve a part.
# https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/CHAP_Limits.html#RDS_Limits.MaxConnections
MAX_CONNECTIONS = {"t4g.micro": 80, "t4g.small": 180}
# The connections that PostgreSQL and RDS keep for administrators.
RESERVED = 10
# The connections of the counting run (the sink, and a lane for each core), of the archive, a daily run, an erasure and
# infra.provision.
FURTHER = 6 + SMALL.spark.executors * SMALL.spark.worker_cpu


@pytest.fixture
def small(synthesised: dict[str, SynthesisedEnvironment]) -> SynthesisedEnvironment:
    return synthesised["small"]


def test_connections_of_all_clients_fit_the_database() -> None:
    """Without a proxy, each environment of a function holds a connection of the instance."""
    clients = {
        entry.name: SMALL.concurrency.reserved.get(entry.name, 1)
        for entry in read_catalogue(generation="g1")
        if PROFILES[entry.package].database
    }
    # Functions without a reservation have one environment: their schedule invokes them.
    assert {name for name in clients if name not in SMALL.concurrency.reserved} == {"webhook_events"}
    used = sum(clients.values()) + SMALL.registry.tasks * CONNECTIONS + FURTHER + RESERVED
    assert used <= MAX_CONNECTIONS[SMALL.database.instance_type]


def test_functions_sign_in_at_the_instance_itself(small: SynthesisedEnvironment) -> None:
    assert list(small.resources("AWS::RDS::DBProxy")) == []
    (instance,) = small.resources("AWS::RDS::DBInstance")
    urls = [
        flat(function.properties["Environment"]["Variables"]["METRICS_DATABASE_URL"])
        for function in small.resources("AWS::Lambda::Function", "functions")
        if "METRICS_DATABASE_URL" in function.properties.get("Environment", {}).get("Variables", {})
    ]
    assert len(urls) == sum(1 for entry in read_catalogue(generation="g1") if PROFILES[entry.package].database)
    for url in urls:
        assert url.startswith(f"postgresql://{METRICS_READER}@"), url
        assert instance.id in url, url
        assert url.endswith("/metrics?sslmode=verify-full"), url
    task = task_definition(small, "registry")
    assert "/registry?sslmode=verify-full" in flat(task.properties["ContainerDefinitions"])


def test_mappings_have_the_settings_of_on_demand_mode(small: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html"""
    mappings = list(kafka_mappings(small))
    assert len(mappings) == sum(len(entry.event_source.topics) for entry in deployed(SMALL) if entry.event_source)
    for mapping in mappings:
        assert mapping.properties.keys().isdisjoint(
            {
                *("ProvisionedPollerConfig", "FunctionResponseTypes", "BisectBatchOnFunctionError"),
                *("MaximumRetryAttempts", "MaximumRecordAgeInSeconds"),
            }
        ), mapping


def test_discarded_batches_go_to_a_bucket_of_their_own(small: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html"""
    (bucket,) = (each for each in small.resources("AWS::S3::Bucket") if "discarded" in each.id)
    encryption = json.dumps(bucket.properties["BucketEncryption"])
    assert "aws:kms" in encryption
    (rule,) = bucket.properties["LifecycleConfiguration"]["Rules"]
    assert rule["ExpirationInDays"] == 30
    with_topic = [
        entry for entry in read_catalogue(generation="g1") if entry.event_source and entry.event_source.on_failure
    ]
    destinations = {
        flat(mapping.properties["DestinationConfig"]["OnFailure"]["Destination"])
        for mapping in kafka_mappings(small)
        if "DestinationConfig" in mapping.properties
    }
    (destination,) = destinations
    assert bucket.id in destination
    writers = {
        resource.id.partition("role")[0]
        for resource, statement in role_statements(small)
        if "s3:PutObject" in actions(statement) and any(bucket.id in target for target in targets(statement))
    }
    assert len(writers) == len(with_topic)
    readers = {
        resource.id.partition("role")[0]: actions(statement)
        for resource, statement in role_statements(small)
        # The resource that empties buckets before a stack is deleted.
        if resource.id.partition("role")[0] not in {*writers, "beforeremoval"}
        and any(bucket.id in target and target.endswith("/*") for target in targets(statement))
    }
    assert readers == {"scheduler": {"s3:GetObject", "s3:DeleteObject"}}
    (scheduler,) = [
        each for each in small.resources("AWS::Lambda::Function") if each.id.startswith("schedulerfunction")
    ]
    assert bucket.id in flat(scheduler.properties["Environment"]["Variables"]["DISCARDED_BATCHES_BUCKET"])


def test_functions_count_attempts_in_the_ledger_only(small: SynthesisedEnvironment) -> None:
    """preference_checker and builder put and update items; they read none of delivery's."""
    for name in ("preferencechecker", "builder"):
        allowed = {
            action
            for resource, statement in role_statements(small)
            if resource.id.startswith(f"{name}role")
            for action in actions(statement)
            if any("deliveryledger" in target for target in targets(statement))
        }
        assert allowed == {"dynamodb:PutItem", "dynamodb:UpdateItem"}, name
    for function in _with_source(small):
        variables = function.properties["Environment"]["Variables"]
        assert variables["MASSCOMM_POLLERS"] == "on-demand"
        assert "BATCH_RETRIES" not in variables or "DELIVERY_LEDGER_TABLE" in variables, function


def _with_source(small: SynthesisedEnvironment) -> list[Resource]:
    names = {f"masscomm-small-{entry.name}" for entry in read_catalogue(generation="g1") if entry.event_source}
    found = [
        each
        for each in small.resources("AWS::Lambda::Function", "functions")
        if each.properties.get("FunctionName") in names
    ]
    assert len(found) == len(names)
    return found


# --- Kafka Connect ----------------------------------------------------------------------------------------------------


def _connect(small: SynthesisedEnvironment) -> tuple[Resource, dict[str, Any]]:
    (task,) = small.resources("AWS::ECS::TaskDefinition", "cdc")
    (container,) = task.properties["ContainerDefinitions"]
    return task, {each["Name"]: flat(each["Value"]) for each in container["Environment"]}


def test_connect_in_a_task_has_the_connector_of_all(small: SynthesisedEnvironment) -> None:
    _, variables = _connect(small)
    ((name, configuration),) = json.loads(variables["CONNECTORS"]).items()
    assert name == "masscomm-small-monolith-g1"
    assert configuration.items() >= debezium_config("g1", SMALL.global_prefix).items()
    assert configuration["database.sslmode"] == "verify-full"
    for field in ("host", "port", "username", "password", "dbname", "ca"):
        assert f"${{secretsmanager:masscomm/monolith-small:{field}}}" in configuration.values()
    assert configuration["topic.creation.default.replication.factor"] == "2"


def test_connects_rest_interface_is_the_tasks_own(small: SynthesisedEnvironment) -> None:
    """It has no authentication. No other host reaches the loopback interface, and no rule admits one."""
    task, variables = _connect(small)
    (container,) = task.properties["ContainerDefinitions"]
    assert "listeners=http://127.0.0.1:8083\n" in variables["CONNECT_PROPERTIES"]
    assert "PortMappings" not in container
    (service,) = small.resources("AWS::ECS::Service", "cdc")
    (group,) = service.properties["NetworkConfiguration"]["AwsvpcConfiguration"]["SecurityGroups"]
    admitting = {flat(each.properties["GroupId"]) for each in small.resources("AWS::EC2::SecurityGroupIngress")}
    name = re.findall(r"networkconnect\w+?GroupId", flat(group))
    assert name
    assert not any("networkconnect" in each for each in admitting)
    # One task at a time: a replication slot has one reader.
    assert service.properties["DeploymentConfiguration"]["MaximumPercent"] == 100


def test_connects_clients_sign_in_with_the_tasks_role(small: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/msk/latest/developerguide/iam-access-control-use-cases.html"""
    _, variables = _connect(small)
    properties = dict(
        line.split("=", 1) for line in variables["CONNECT_PROPERTIES"].splitlines() if line and line[0] != "#"
    )
    for client in ("", "producer.", "consumer.", "admin."):
        assert properties[f"{client}security.protocol"] == "SASL_SSL"
        assert properties[f"{client}sasl.mechanism"] == "AWS_MSK_IAM"
        # https://docs.aws.amazon.com/msk/latest/developerguide/limits.html: four new connections a second and broker.
        assert int(properties[f"{client}reconnect.backoff.ms"]) >= 1000
    assert properties["producer.max.request.size"] == str(largest_record())
    created = {
        target.rpartition("/")[2]
        for resource, statement in role_statements(small)
        if resource.stack == "cdc" and "kafka-cluster:CreateTopic" in actions(statement)
        for target in targets(statement)
    }
    assert created == {"connect.offsets", "connect.configs", "connect.statuses", heartbeat_topic("g1")}


def test_tasks_use_the_images_that_are_copied(small: SynthesisedEnvironment) -> None:
    used = {
        flat(container["Image"]).rpartition(":")[2]
        for task in small.resources("AWS::ECS::TaskDefinition")
        for container in task.properties["ContainerDefinitions"]
    }
    assert used == {image.tag for image in images(SMALL)}


# --- the network ------------------------------------------------------------------------------------------------------


def test_the_nat_gateway_takes_the_place_of_endpoints(small: SynthesisedEnvironment) -> None:
    """S3 and DynamoDB keep their gateway endpoints, which cost nothing."""
    kinds = {each.properties["VpcEndpointType"] for each in small.resources("AWS::EC2::VPCEndpoint")}
    assert kinds == {"Gateway"}
    (nat,) = small.resources("AWS::EC2::NatGateway")
    public = {each.id for each in small.resources("AWS::EC2::Subnet") if "natSubnet" in each.id}
    assert nat.properties["SubnetId"]["Ref"] in public
    for each in small.resources("AWS::EC2::Subnet"):
        assert each.properties["MapPublicIpOnLaunch"] is False
    # Nothing but the gateway and their routes is in a public subnet; other stacks import no public one.
    in_network = ("AWS::EC2::NatGateway", "AWS::EC2::SubnetRouteTableAssociation")
    users = [each for each in small.resources() if each.type not in in_network]
    assert [str(each) for each in users if any(f"{{{name}}}" in flat(each.properties) for name in public)] == []
    assert "natSubnet" not in json.dumps([each.properties for each in users if each.stack != "network"])


def test_egress_beyond_the_network_is_https_alone(small: SynthesisedEnvironment) -> None:
    for each in small.resources("AWS::EC2::SecurityGroup"):
        for rule in each.properties.get("SecurityGroupEgress", ()):
            if rule.get("CidrIp") == "0.0.0.0/0":
                assert (rule["FromPort"], rule["ToPort"]) == (443, 443), each


# --- the job and the alarms -------------------------------------------------------------------------------------------


def test_the_job_runs_every_quarter_of_an_hour_and_ends(small: SynthesisedEnvironment) -> None:
    (request,) = (
        flat(each.properties["Value"])
        for each in small.resources("AWS::SSM::Parameter")
        if each.properties["Name"] == "/masscomm-small/streaming-job"
    )
    assert '"mode":"BATCH"' in request
    assert '"entryPointArguments":["--available-now"]' in request
    assert '"retryPolicy"' not in request
    (rule,) = (each for each in small.resources("AWS::Events::Rule") if "keepjob" in flat(each.properties["Targets"]))
    assert rule.properties["ScheduleExpression"] == "rate(15 minutes)"
    for application in small.resources("AWS::EMRServerless::Application"):
        assert application.properties["AutoStopConfiguration"]["Enabled"] is True
        assert "InitialCapacity" not in application.properties


def test_each_failure_that_loses_or_delays_has_an_alarm(small: SynthesisedEnvironment) -> None:
    alarms = {
        str(each.properties["AlarmName"]).removeprefix("masscomm-small-"): each.properties
        for each in small.resources("AWS::CloudWatch::Alarm")
    }
    assert alarms.keys() >= {
        *("failed", "changes-stale", "metrics-stale", "waiting-overdue", "archive-stale", "metrics-differ"),
        *("metrics-quarantined", "retention-missed", "maintenance-missed", "recompute-missed", "change-data-capture"),
        *(
            "schema-registry",
            "kafka-controller",
            "kafka-offline",
            "kafka-storage",
            "directory-key",
            "directory-red",
            "directory-storage",
        ),
        *("metrics-database-storage", "metrics-database-cpu", "api-errors", "email-bounces", "email-complaints"),
        *("delivery-critical-lag-delivery.critical", "delivery-dead-letters", "scheduler-missed"),
    }
    assert not alarms.keys() & {"streaming-job", "streaming-job-restarts", "delivery-errors", "delivery-throttled"}
    # Three runs in a row that count nothing, or are late.
    assert (alarms["metrics-stale"]["Period"], alarms["metrics-stale"]["TreatMissingData"]) == (2700, "breaching")
    for name in ("change-data-capture", "schema-registry"):
        assert (alarms[name]["Namespace"], alarms[name]["Statistic"]) == ("AWS/ECS", "SampleCount"), name


def test_functions_are_not_kept_warm(small: SynthesisedEnvironment) -> None:
    assert Warmth.PROVISIONED in {profile.warmth for profile in PROFILES.values()}
    for alias in small.resources("AWS::Lambda::Alias"):
        assert "ProvisionedConcurrencyConfig" not in alias.properties
    for function in small.resources("AWS::Lambda::Function"):
        assert "SnapStart" not in function.properties
