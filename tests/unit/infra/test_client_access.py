"""Programs outside the functions reach the brokers and the registry, and their policies name exactly their topics."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms

from functions.catalogue import read_catalogue
from infra.cdk.clients import ConsumerConfig, ProducerConfig
from infra.cdk.config import KafkaConfig
from infra.cdk.examples import DEV, ENVIRONMENTS, PROD
from infra.cdk.resources.client_access import ClientPolicies
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.network import HTTPS, KAFKA_IAM, Place
from masscomm.kafka.topics import cdc_topics, chain_topics
from tests.support.cdk.templates import SynthesisedEnvironment, actions, as_list, flat, statements, targets

FUNCTIONS = {entry.package for entry in read_catalogue(generation="g1")}
# The stack with the policies of each party of schemas/topics.yaml outside the functions. Event source mappings use
# the roles of their functions.
STACKS = {"monolith": "data", "debezium": "cdc", "spark_metrics": "metrics", "event source mappings": "functions"}
# The source of each party's connections: a security group, or a network.
PATHS = {"monolith": "10.0.0.0/16", "debezium": "connect", "spark_metrics": "spark", "event source mappings": "kafka"}
# Parties that an environment has only with a setting (`event_sources`), that a later step deploys, or that run on one
# machine only.
OPTIONAL = {"spark_events", "operations", "directory_state"}


def _parties() -> Iterator[tuple[str, str, str]]:
    """Yield (party, action, topic) of every producer and consumer outside the functions."""
    for topic in (*chain_topics(), *cdc_topics("g1")):
        for kafka_action, parties in (("WriteData", topic.producers), ("ReadData", topic.consumers)):
            for party in set(parties) - FUNCTIONS:
                yield party, f"kafka-cluster:{kafka_action}", topic.name


def test_each_party_has_a_path_and_a_policy(environment: SynthesisedEnvironment) -> None:
    allowed: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for resource, statement in statements(environment, kind):
            for action in actions(statement):
                allowed[resource.stack] |= {(action, target.rpartition("/")[2]) for target in targets(statement)}
    parties = list(_parties())
    assert {party for party, _, _ in parties} == STACKS.keys() | OPTIONAL
    admitted = _admitted(environment, "kafka")
    for party, action, topic in parties:
        if party not in OPTIONAL:
            assert (action, topic) in allowed[STACKS[party]], party
            assert (PATHS[party], KAFKA_IAM) in admitted, party
    assert (PATHS["monolith"], HTTPS) in _admitted(environment, "registry-balancer")


def _admitted(environment: SynthesisedEnvironment, party: str) -> set[tuple[str, int]]:
    """Return (source, port) of everything that may connect to a party of the network."""
    groups = {
        each.id: str(each.properties["GroupDescription"]).partition(" ")[2]
        for each in environment.resources("AWS::EC2::SecurityGroup")
    }
    found = set()
    for resource in environment.resources("AWS::EC2::SecurityGroup"):
        if groups[resource.id] == party:
            for rule in resource.properties.get("SecurityGroupIngress", []):
                found.add((str(rule["CidrIp"]), int(rule["FromPort"])))
    for resource in environment.resources("AWS::EC2::SecurityGroupIngress"):
        rule = resource.properties
        if any(name == party and id in flat(rule["GroupId"]) for id, name in groups.items()):
            (source,) = [name for id, name in groups.items() if id in flat(rule["SourceSecurityGroupId"])]
            found.add((source, int(rule["FromPort"])))
    return found


def test_the_monolith_has_exactly_its_topics_and_groups(environment: SynthesisedEnvironment) -> None:
    """https://docs.aws.amazon.com/msk/latest/developerguide/iam-access-control-use-cases.html"""
    assert _policies(environment) == {
        "producer": {
            "Connect": {"cluster"},
            "DescribeCluster": {"cluster"},
            "WriteDataIdempotently": {"cluster"},
            "DescribeTopic": {"topic/event", "topic/send.monolith", "topic/send.monolith.critical"},
            "WriteData": {"topic/event", "topic/send.monolith", "topic/send.monolith.critical"},
        },
        "consumer": {
            "Connect": {"cluster"},
            "DescribeCluster": {"cluster"},
            "DescribeTopic": {"topic/device_status", "topic/preference_change"},
            "ReadData": {"topic/device_status", "topic/preference_change"},
            "AlterGroup": {"group/monolith.*"},
            "DescribeGroup": {"group/monolith.*"},
        },
    }
    for resource in environment.resources("AWS::IAM::ManagedPolicy"):
        if resource.stack == "data" and "ManagedPolicyName" in resource.properties:
            assert resource.properties["Roles"] == ["monolith"]


def _policies(environment: SynthesisedEnvironment) -> dict[str, dict[str, set[str]]]:
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for resource, statement in statements(environment, "AWS::IAM::ManagedPolicy"):
        if resource.stack == "data" and "ManagedPolicyName" in resource.properties:
            prefix = ENVIRONMENTS[environment.name].global_prefix
            kind = resource.properties["ManagedPolicyName"].removeprefix(f"{prefix}-")
            for action in actions(statement):
                found[kind.partition("-")[0]][action.partition(":")[2]] |= set(map(_within, targets(statement)))
    return {kind: dict(each) for kind, each in found.items()}


def _within(target: str) -> str:
    match = re.search(r":(topic|group)/.*/([^/]+)$", target)
    return "/".join(match.groups()) if match else "cluster"


ELSEWHERE = "arn:aws:iam::222222222222:role/teams/analytics"


@pytest.fixture(scope="module")
def other_account() -> dict[str, Any]:
    """The resources for a consumer of another account with private connectivity."""
    environment = replace(
        PROD,
        account="111111111111",
        kafka=replace(PROD.kafka, multi_vpc=True),
        consumers=(ConsumerConfig(name="analytics", role_arn=ELSEWHERE, topics=("outcome",), group_prefix="bi."),),
        producers=(),
    )
    stack = Stack(App(), "stack", env={"region": environment.region})
    vpc = ec2.Vpc(stack, "vpc", nat_gateways=0)
    group = ec2.SecurityGroup(stack, "group", vpc=vpc)
    place = Place(vpc=vpc, subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED), group=group)
    kafka = KafkaCluster(stack, environment=environment, key=kms.Key(stack, "key"), place=place, topics=[])
    ClientPolicies(stack, environment=environment, kafka=kafka)
    found: dict[str, Any] = assertions.Template.from_stack(stack).to_json()["Resources"]
    return found


def _of(resources: dict[str, Any], kind: str) -> list[Any]:
    return [each["Properties"] for each in resources.values() if each["Type"] == kind]


def test_a_role_of_another_account_needs_the_cluster_policy(other_account: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/msk/latest/developerguide/mvpc-cluster-owner-action-policy.html"""
    (own,) = _of(other_account, "AWS::IAM::ManagedPolicy")
    assert "Roles" not in own
    (policy,) = _of(other_account, "AWS::MSK::ClusterPolicy")
    admitted = {
        (flat(each["Principal"]["AWS"]), action)
        for each in policy["Policy"]["Statement"]
        for action in as_list(each["Action"])
    }
    assert {action for who, action in admitted if who == ELSEWHERE} == {
        action for each in own["PolicyDocument"]["Statement"] for action in as_list(each["Action"])
    }
    assert {action for who, action in admitted if who != ELSEWHERE} == {
        *("kafka:CreateVpcConnection", "kafka:DescribeCluster", "kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers")
    }


def test_private_connectivity_is_for_iam_sign_in(other_account: dict[str, Any]) -> None:
    (cluster,) = _of(other_account, "AWS::MSK::Cluster")
    connectivity = cluster["BrokerNodeGroupInfo"]["ConnectivityInfo"]["VpcConnectivity"]
    assert connectivity == {"ClientAuthentication": {"Sasl": {"Iam": {"Enabled": True}}}}


ROLE = "arn:aws:iam::111111111111:role/crm"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"topics": ("delivery",)}, "delivery: not open"),
        ({"topics": ("send.monolth",)}, "no topics"),
        ({"topics": ()}, "no topics"),
        ({"role_arn": "crm"}, "not the ARN of a role"),
        ({"cidr": "0.0.0.0/0"}, "larger than a private network"),
        ({"name": "CRM"}, "the name has small letters"),
    ],
)
def test_producer_that_must_not_be_admitted_is_refused(changed: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"name": "crm", "role_arn": ROLE, "cidr": "10.1.0.0/16", "topics": ("event",)}
    assert ProducerConfig(**valid).allowed() == ["event"]
    with pytest.raises(ValueError, match=message):
        ProducerConfig(**(valid | changed))


@pytest.mark.parametrize("prefix", ["", "m", "masscomm.delivery", "__amazon"])
def test_consumer_with_groups_of_masscomm_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="groups of masscomm"):
        ConsumerConfig(name="bi", role_arn=ROLE, cidr="10.1.0.0/16", topics=("outcome",), group_prefix=prefix)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cidr": "10.65.1.0/24"}, "overlaps the environment's"),
        ({"cidr": None}, "needs cidr, security_group or kafka.multi_vpc"),
    ],
)
def test_client_without_a_path_is_refused(changed: dict[str, Any], message: str) -> None:
    (producer,) = DEV.producers
    with pytest.raises(ValueError, match=message):
        replace(DEV, producers=(replace(producer, **changed),))


def test_private_connectivity_of_small_brokers_is_refused() -> None:
    """https://docs.aws.amazon.com/msk/latest/developerguide/aws-access-mult-vpc.html"""
    with pytest.raises(ValueError, match=r"larger than kafka\.t3\.small"):
        replace(DEV, kafka=KafkaConfig(instance_type="kafka.t3.small", multi_vpc=True))
