"""Resources of the organisation are used, and none of their kind is created."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Match, Template

from infra.cdk.config import Environment, ExistingConfig, ExistingKafka, ExistingVpc
from infra.cdk.examples import DEV
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.network import CALLERS_OF_AWS, FLOWS, KAFKA_IAM, PARTIES
from infra.cdk.stacks.network import NetworkStack
from local.devstack.config import ROOT
from tests.support.cdk.templates import SynthesisedEnvironment, as_list, flat, kafka_mappings, role_statements

VPC = ExistingVpc(
    id="vpc-0123456789abcdef0",
    subnet_ids=("subnet-0000000000000000a", "subnet-0000000000000000b", "subnet-0000000000000000c"),
    endpoints_group="sg-0123456789abcdef0",
)
KEY = "arn:aws:kms:eu-central-1:000000000000:key/00000000-0000-0000-0000-000000000000"
BUCKET = "acme-access-logs"
KAFKA = ExistingKafka(
    cluster_arn="arn:aws:kafka:eu-central-1:000000000000:cluster/acme/00000000-0000-0000-0000-000000000000-1",
    security_group="sg-00000000000000001",
)
EXISTING = replace(DEV, existing=ExistingConfig(vpc=VPC, kafka=KAFKA, key_arn=KEY, access_log_bucket=BUCKET))
# The types of which the organisation has the only resource. A webhook's credentials have a key of their own.
REPLACED = ("AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::VPCEndpoint", "AWS::EC2::FlowLog", "AWS::EC2::RouteTable")


def network(environment: Environment) -> Template:
    stack = NetworkStack(App(), environment=environment)
    Buckets(stack, environment=environment, key=stack.key)
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def template() -> Template:
    return network(EXISTING)


@pytest.mark.parametrize("kind", [*REPLACED, "AWS::KMS::Key", "AWS::KMS::Alias"])
def test_existing_network_and_key_are_not_created(template: Template, kind: str) -> None:
    template.resource_count_is(kind, 0)


def test_security_groups_are_in_the_existing_vpc(template: Template) -> None:
    template.resource_count_is("AWS::EC2::SecurityGroup", len(PARTIES) - 1)
    template.all_resources_properties("AWS::EC2::SecurityGroup", {"VpcId": VPC.id})


def test_existing_endpoints_admit_each_caller(template: Template) -> None:
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress", {"Properties": {"GroupId": VPC.endpoints_group}})
    assert {rule["Properties"]["FromPort"] for rule in rules.values()} == {443}
    assert len(rules) == len(CALLERS_OF_AWS)


def test_endpoints_without_a_group_get_no_rules() -> None:
    existing = replace(EXISTING.existing, vpc=replace(VPC, endpoints_group=None))
    rules = network(replace(EXISTING, existing=existing)).find_resources("AWS::EC2::SecurityGroupIngress")
    assert rules
    assert all(str(rule["Properties"]["GroupId"]) != VPC.endpoints_group for rule in rules.values())


def test_parties_reach_the_brokers_of_an_existing_cluster(template: Template) -> None:
    brokers = {"Properties": {"GroupId": KAFKA.security_group, "FromPort": KAFKA_IAM}}
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress", brokers)
    rules = {id: rule for id, rule in rules.items() if "SourceSecurityGroupId" in rule["Properties"]}
    assert len(rules) == len([flow for flow in FLOWS if flow[1] == "kafka"])
    itself = {"SourceSecurityGroupId": KAFKA.security_group, "GroupId": KAFKA.security_group}
    assert len([rule for rule in rules.values() if itself.items() <= rule["Properties"].items()]) == 1


def test_existing_key_and_bucket_take_data_and_logs(template: Template) -> None:
    template.resource_count_is("AWS::S3::Bucket", 1)
    encryption = {"ServerSideEncryptionByDefault": {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}}
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {
            "BucketEncryption": {
                "ServerSideEncryptionConfiguration": [Match.object_like(encryption)],
            },
            "LoggingConfiguration": {"DestinationBucketName": BUCKET, "LogFilePrefix": "archive/"},
        },
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vpc": {"id": "masscomm", "subnet_ids": ()}}, "is not an id such as vpc-"),
        ({"vpc": {"id": VPC.id, "subnet_ids": ("vpc-0123456789abcdef0",)}}, "is not an id such as subnet-"),
        ({"kafka": {"cluster_arn": "acme", "security_group": KAFKA.security_group}}, "the ARN of an MSK cluster"),
        ({"kafka": {"cluster_arn": KAFKA.cluster_arn, "security_group": "acme"}}, "is not an id such as sg-"),
        ({"key_arn": "arn:aws:kms:eu-central-1:000000000000:alias/masscomm"}, "not of an alias"),
        ({"access_log_bucket": "arn:aws:s3:::logs"}, "is the name of a bucket"),
    ],
)
def test_id_of_another_form_is_refused(values: dict[str, Any], message: str) -> None:
    kinds = {"vpc": ExistingVpc, "kafka": ExistingKafka}
    with pytest.raises(ValueError, match=message):
        ExistingConfig(**{name: kinds[name](**each) if name in kinds else each for name, each in values.items()})


def test_existing_resource_must_fit_the_environment() -> None:
    with pytest.raises(ValueError, match="a subnet in each of zones"):
        replace(DEV, existing=ExistingConfig(vpc=replace(VPC, subnet_ids=VPC.subnet_ids[:2])))
    with pytest.raises(ValueError, match=r"existing\.key_arn is in eu-west-1"):
        replace(EXISTING, region="eu-west-1")
    with pytest.raises(ValueError, match=r"existing\.kafka needs existing\.vpc"):
        replace(DEV, existing=ExistingConfig(kafka=KAFKA))


@pytest.mark.nightly
def test_every_stack_is_synthesised_with_existing_resources(tmp_path: Path) -> None:
    made = SynthesisedEnvironment(name=EXISTING.name, folder=tmp_path)
    code = "from infra.cdk.app import build; from tests.unit.infra.test_existing import EXISTING; "
    run([sys.executable, "-c", f"{code}build(EXISTING, outdir={str(tmp_path)!r}).synth()"], cwd=ROOT, check=True)
    kinds = {each.type for each in made.resources()}
    assert {"AWS::MSK::Topic", "AWS::Lambda::Function", "AWS::KafkaConnect::Connector"} <= kinds
    assert kinds.isdisjoint({*REPLACED, "AWS::MSK::Cluster", "AWS::MSK::Configuration"})
    for each in made.resources("AWS::Lambda::Function"):
        if "VpcConfig" in each.properties:
            assert each.properties["VpcConfig"]["SubnetIds"] == list(VPC.subnet_ids), each
    assert {each.properties["ClusterArn"] for each in made.resources("AWS::MSK::Topic")} == {KAFKA.cluster_arn}
    assert {each.properties["EventSourceArn"] for each in kafka_mappings(made)} == {KAFKA.cluster_arn}
    topics = KAFKA.cluster_arn.replace(":cluster/", ":topic/")
    named = [flat(resource) for _, statement in role_statements(made) for resource in as_list(statement["Resource"])]
    assert len([each for each in named if each.startswith(f"{topics}/")]) > 50
    for database in made.resources("AWS::RDS::DBInstance"):
        assert flat(database.properties["KmsKeyId"]) == KEY
    assert [each for each in made.resources("AWS::S3::Bucket") if "AccessLog" in each.id] == []
