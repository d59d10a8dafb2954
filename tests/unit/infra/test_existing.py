"""Resources of the organisation are used, and none of their kind is created."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest
from aws_cdk import App
from aws_cdk.assertions import Match, Template

from infra.cdk.config import Environment, ExistingConfig, ExistingVpc
from infra.cdk.examples import DEV
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.network import CALLERS_OF_AWS, PARTIES
from infra.cdk.stacks.network import NetworkStack
from local.devstack.config import ROOT
from tests.support.cdk.templates import SynthesisedEnvironment, flat

VPC = ExistingVpc(
    id="vpc-0123456789abcdef0",
    subnet_ids=("subnet-0000000000000000a", "subnet-0000000000000000b", "subnet-0000000000000000c"),
    endpoints_group="sg-0123456789abcdef0",
)
KEY = "arn:aws:kms:eu-central-1:000000000000:key/00000000-0000-0000-0000-000000000000"
BUCKET = "acme-access-logs"
EXISTING = replace(DEV, existing=ExistingConfig(vpc=VPC, key_arn=KEY, access_log_bucket=BUCKET))
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
    template.resource_count_is("AWS::EC2::SecurityGroup", len(PARTIES))
    template.all_resources_properties("AWS::EC2::SecurityGroup", {"VpcId": VPC.id})


def test_existing_endpoints_admit_each_caller(template: Template) -> None:
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress", {"Properties": {"GroupId": VPC.endpoints_group}})
    assert {rule["Properties"]["FromPort"] for rule in rules.values()} == {443}
    assert len(rules) == len(CALLERS_OF_AWS)


def test_endpoints_without_a_group_get_no_rules() -> None:
    existing = replace(EXISTING.existing, vpc=replace(VPC, endpoints_group=None))
    rules = network(replace(EXISTING, existing=existing)).find_resources("AWS::EC2::SecurityGroupIngress")
    assert rules
    assert all("sg-" not in str(rule["Properties"]["GroupId"]) for rule in rules.values())


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
        ({"key_arn": "arn:aws:kms:eu-central-1:000000000000:alias/masscomm"}, "not of an alias"),
        ({"access_log_bucket": "arn:aws:s3:::logs"}, "is the name of a bucket"),
    ],
)
def test_id_of_another_form_is_refused(values: dict[str, object], message: str) -> None:
    vpc = values.pop("vpc", None)
    with pytest.raises(ValueError, match=message):
        ExistingConfig(vpc=vpc if vpc is None else ExistingVpc(**vpc), **values)  # type: ignore[arg-type]


def test_existing_resource_must_fit_the_environment() -> None:
    with pytest.raises(ValueError, match="a subnet in each of zones"):
        replace(DEV, existing=ExistingConfig(vpc=replace(VPC, subnet_ids=VPC.subnet_ids[:2])))
    with pytest.raises(ValueError, match=r"existing\.key_arn is in eu-west-1"):
        replace(EXISTING, region="eu-west-1")


@pytest.mark.nightly
def test_every_stack_is_synthesised_with_existing_resources(tmp_path: Path) -> None:
    made = SynthesisedEnvironment(name=EXISTING.name, folder=tmp_path)
    code = "from infra.cdk.app import build; from tests.unit.infra.test_existing import EXISTING; "
    run([sys.executable, "-c", f"{code}build(EXISTING, outdir={str(tmp_path)!r}).synth()"], cwd=ROOT, check=True)
    kinds = {each.type for each in made.resources()}
    assert {"AWS::MSK::Cluster", "AWS::Lambda::Function", "AWS::KafkaConnect::Connector"} <= kinds
    assert kinds.isdisjoint(REPLACED)
    for each in made.resources("AWS::Lambda::Function"):
        if "VpcConfig" in each.properties:
            assert each.properties["VpcConfig"]["SubnetIds"] == list(VPC.subnet_ids), each
    (cluster,) = made.resources("AWS::MSK::Cluster")
    assert cluster.properties["BrokerNodeGroupInfo"]["ClientSubnets"] == list(VPC.subnet_ids)
    assert flat(cluster.properties["EncryptionInfo"]["EncryptionAtRest"]["DataVolumeKMSKeyId"]) == KEY
    assert [each for each in made.resources("AWS::S3::Bucket") if "AccessLog" in each.id] == []
