"""Resources of the organisation are used, and none of their kind is created."""

import sys
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Match, Template

from infra.cdk.config import (
    Environment,
    ExistingConfig,
    ExistingKafka,
    ExistingOpenSearch,
    ExistingPostgres,
    ExistingRegistry,
    ExistingVpc,
)
from infra.cdk.examples import DEV, EXISTING
from infra.cdk.profiles import METRICS_READER, METRICS_WRITER
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.network import CALLERS_OF_AWS, HTTPS, KAFKA_IAM, flows, parties
from infra.cdk.stacks.network import NetworkStack
from lab.capacity.costs import CHARGED, a_month
from lab.capacity.plan import Plan
from lab.capacity.prices import price
from local.devstack.config import ROOT
from masscomm.kafka.topics import chain_topics
from tests.support.cdk.templates import SynthesisedEnvironment, as_list, flat, kafka_mappings, role_statements

VPC, KAFKA, OPENSEARCH, POSTGRES, REGISTRY = (
    getattr(EXISTING.existing, name) for name in ("vpc", "kafka", "opensearch", "postgres", "registry")
)
KEY, BUCKET = EXISTING.existing.key_arn, EXISTING.existing.access_log_bucket
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
    template.resource_count_is("AWS::EC2::SecurityGroup", len(parties(EXISTING)) - len(SERVERS))
    template.all_resources_properties("AWS::EC2::SecurityGroup", {"VpcId": VPC.id})


def test_existing_endpoints_admit_each_caller(template: Template) -> None:
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress", {"Properties": {"GroupId": VPC.endpoints_group}})
    assert {rule["Properties"]["FromPort"] for rule in rules.values()} == {443}
    assert len(rules) == len({*CALLERS_OF_AWS} - {"registry", "directory-state"})


def test_endpoints_without_a_group_get_no_rules() -> None:
    existing = replace(EXISTING.existing, vpc=replace(VPC, endpoints_group=None))
    rules = network(replace(EXISTING, existing=existing)).find_resources("AWS::EC2::SecurityGroupIngress")
    assert rules
    assert all(str(rule["Properties"]["GroupId"]) != VPC.endpoints_group for rule in rules.values())


# Party → the security group and the port of its server.
SERVERS = {
    "kafka": (KAFKA.security_group, KAFKA_IAM),
    "directory": (OPENSEARCH.security_group, HTTPS),
    "database": (POSTGRES.security_group, POSTGRES.port),
    "registry-balancer": (REGISTRY.security_group, HTTPS),
}


@pytest.mark.parametrize("server", SERVERS)
def test_parties_reach_the_existing_server(template: Template, server: str) -> None:
    group, port = SERVERS[server]
    sources = {source for source, destination, _ in flows(EXISTING) if destination == server}
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress", {"Properties": {"GroupId": group}})
    assert {rule["Properties"]["FromPort"] for rule in rules.values()} == {port}
    assert len(rules) == len(sources) > 1
    itself = [rule for rule in rules.values() if rule["Properties"]["SourceSecurityGroupId"] == group]
    assert len(itself) == (server in sources)
    # Security groups refuse traffic on both sides.
    leaving = {"Properties": {"DestinationSecurityGroupId": group, "FromPort": port}}
    assert len(template.find_resources("AWS::EC2::SecurityGroupEgress", leaving)) == len(rules)


def test_registry_outside_the_vpc_needs_no_group() -> None:
    existing = replace(EXISTING.existing, registry=replace(REGISTRY, security_group=None))
    outside = replace(EXISTING, existing=existing)
    assert set(parties(EXISTING)) - {*parties(outside)} == {"registry-balancer"}
    assert {source for source, destination, _ in flows(EXISTING) if destination == "registry-balancer"} <= {
        *CALLERS_OF_AWS
    }


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


OPENSEARCH_WITH, POSTGRES_WITH, REGISTRY_WITH = (asdict(each) for each in (OPENSEARCH, POSTGRES, REGISTRY))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vpc": {"id": "masscomm", "subnet_ids": ()}}, "is not an id such as vpc-"),
        ({"vpc": {"id": VPC.id, "subnet_ids": ("vpc-0123456789abcdef0",)}}, "is not an id such as subnet-"),
        ({"kafka": {"cluster_arn": "acme", "security_group": KAFKA.security_group}}, "the ARN of an MSK cluster"),
        ({"kafka": {"cluster_arn": KAFKA.cluster_arn, "security_group": "acme"}}, "is not an id such as sg-"),
        ({"opensearch": OPENSEARCH_WITH | {"domain_arn": "acme"}}, "the ARN of an OpenSearch domain"),
        ({"opensearch": OPENSEARCH_WITH | {"endpoint": "https://vpc-acme.eu-central-1.es.amazonaws.com"}}, "is a host"),
        ({"postgres": POSTGRES_WITH | {"host": "db.acme.example"}}, "the endpoint of an RDS instance"),
        ({"postgres": POSTGRES_WITH | {"resource_id": "acme"}}, "an id such as db-"),
        ({"postgres": POSTGRES_WITH | {"secret_arn": "acme/postgres"}}, "the whole ARN"),
        ({"postgres": POSTGRES_WITH | {"secret_key_arn": "alias/acme"}}, "not of an alias"),
        ({"registry": REGISTRY_WITH | {"url": "http://registry.acme.example"}}, "credentials need TLS"),
        ({"registry": REGISTRY_WITH | {"url": "https://user:password@registry.acme.example"}}, "credentials need TLS"),
        ({"key_arn": "arn:aws:kms:eu-central-1:000000000000:alias/masscomm"}, "not of an alias"),
        ({"access_log_bucket": "arn:aws:s3:::logs"}, "is the name of a bucket"),
    ],
)
def test_id_of_another_form_is_refused(values: dict[str, Any], message: str) -> None:
    kinds: dict[str, Any] = {
        "vpc": ExistingVpc,
        "kafka": ExistingKafka,
        "opensearch": ExistingOpenSearch,
        "postgres": ExistingPostgres,
        "registry": ExistingRegistry,
    }
    with pytest.raises(ValueError, match=message):
        ExistingConfig(**{name: kinds[name](**each) if name in kinds else each for name, each in values.items()})


def test_existing_resource_must_fit_the_environment() -> None:
    with pytest.raises(ValueError, match="a subnet in each of zones"):
        replace(DEV, existing=ExistingConfig(vpc=replace(VPC, subnet_ids=VPC.subnet_ids[:2])))
    with pytest.raises(ValueError, match=r"existing\.key_arn is in eu-west-1"):
        replace(EXISTING, region="eu-west-1")
    with pytest.raises(ValueError, match=r"existing\.postgres\.host is in eu-west-1"):
        replace(EXISTING, region="eu-west-1")
    with pytest.raises(ValueError, match=r"existing\.opensearch\.domain_arn is in the account 111111111111"):
        replace(EXISTING, account="111111111111")
    for name in ("kafka", "opensearch", "postgres", "registry"):
        alone = ExistingConfig(**{name: getattr(EXISTING.existing, name)})
        with pytest.raises(ValueError, match=rf"existing\.{name} needs existing\.vpc"):
            replace(DEV, existing=alone)


def test_existing_servers_are_not_on_the_bill() -> None:
    own = {cost.component: cost.dollars for cost in a_month(Plan.of(replace(EXISTING, existing=ExistingConfig())))}
    left = {cost.component: cost.dollars for cost in a_month(Plan.of(EXISTING))}
    gone = {"Kafka (MSK)", "directory (OpenSearch)", "schema registry (Fargate, load balancer)"}
    assert own.keys() - left.keys() == {*gone, "ways to AWS (endpoints or NAT)"}
    assert left["databases (RDS, proxy)"] == 0 < own["databases (RDS, proxy)"]
    # A key, the registry's database user, and the secrets that RDS makes.
    assert own["keys and secrets"] - left["keys and secrets"] == pytest.approx(
        price("key_month") + 3 * price("secret_month")
    )
    assert sum(left.values()) < EXISTING.budget_usd


@pytest.mark.nightly
def test_every_stack_is_synthesised_with_existing_resources(tmp_path: Path) -> None:
    made = SynthesisedEnvironment(name=EXISTING.name, folder=tmp_path)
    code = "from infra.cdk.app import build; from infra.cdk.examples import EXISTING; "
    run([sys.executable, "-c", f"{code}build(EXISTING, outdir={str(tmp_path)!r}).synth()"], cwd=ROOT, check=True)
    kinds = {each.type for each in made.resources()}
    assert {"AWS::MSK::Topic", "AWS::Lambda::Function", "AWS::KafkaConnect::Connector"} <= kinds
    assert kinds.isdisjoint({*REPLACED, *SERVERS_OF_AWS})
    assert_is_used(made)
    charged = {cost.component for cost in a_month(Plan.of(EXISTING)) if cost.dollars > 0} - {"custom metrics"}
    assert charged <= {CHARGED[each] for each in kinds & CHARGED.keys()}
    named = [str(each.properties["AlarmName"]) for each in made.resources("AWS::CloudWatch::Alarm")]
    # Alarms by the names of the organisation's servers remain; the registry has no metrics of AWS.
    for part, count in {"-kafka-": 5, "-directory-": 4, "-database-": 3, "schema-registry": 0}.items():
        assert len([name for name in named if part in name]) >= count, part
    assert not [name for name in named if name.endswith("schema-registry")]


SERVERS_OF_AWS = (
    *("AWS::MSK::Cluster", "AWS::MSK::Configuration", "AWS::OpenSearchService::Domain", "AWS::RDS::DBInstance"),
    *("AWS::ECS::Service", "AWS::ElasticLoadBalancingV2::LoadBalancer", "AWS::Route53::HostedZone"),
)


def assert_is_used(made: SynthesisedEnvironment) -> None:
    """Functions, jobs and tasks have the addresses of the existing servers, and exactly their permissions."""
    for each in made.resources("AWS::Lambda::Function"):
        variables = each.properties.get("Environment", {}).get("Variables", {})
        if "VpcConfig" in each.properties:
            assert each.properties["VpcConfig"]["SubnetIds"] == list(VPC.subnet_ids), each
            assert variables["SCHEMA_REGISTRY_URL"] == REGISTRY.url, each
            assert variables["SCHEMA_REGISTRY_SECRET_ARN"] == REGISTRY.secret_arn, each
        assert variables.get("OPENSEARCH_URL", f"https://{OPENSEARCH.endpoint}") == f"https://{OPENSEARCH.endpoint}"
        if "METRICS_DATABASE_URL" in variables:
            assert f"@{POSTGRES.host}:{POSTGRES.port}/metrics" in variables["METRICS_DATABASE_URL"]
    assert {each.properties["ClusterArn"] for each in made.resources("AWS::MSK::Topic")} == {KAFKA.cluster_arn}
    assert {each.properties["EventSourceArn"] for each in kafka_mappings(made)} == {KAFKA.cluster_arn}
    permitted: defaultdict[str, set[str]] = defaultdict(set)
    for _, statement in role_statements(made):
        for resource in as_list(statement["Resource"]):
            for action in as_list(statement["Action"]):
                permitted[action.partition(":")[0]].add(flat(resource))
    topics = KAFKA.cluster_arn.replace(":cluster/", ":topic/")
    named = {each.removeprefix(f"{topics}/") for each in permitted["kafka-cluster"]}
    assert named >= {topic.name for topic in chain_topics()}
    assert permitted["es"]
    assert all(each.startswith(f"{OPENSEARCH.domain_arn}/") for each in permitted["es"])
    users = {each.rpartition("/")[2] for each in permitted["rds-db"]}
    assert users == {METRICS_READER, METRICS_WRITER}
    assert all(f"dbuser:{POSTGRES.resource_id}/" in each for each in permitted["rds-db"])
    assert {POSTGRES.secret_arn, REGISTRY.secret_arn} <= permitted["secretsmanager"]
    assert {KEY, POSTGRES.secret_key_arn} <= permitted["kms"]
    # Only the provisioner reads the secret of the database's administrator.
    readers = {
        flat(role)
        for policy, statement in role_statements(made)
        if POSTGRES.secret_arn in map(flat, as_list(statement["Resource"]))
        for role in policy.properties["Roles"]
    }
    assert len(readers) == 1
    assert "provisioner" in next(iter(readers))
    assert [each for each in made.resources("AWS::S3::Bucket") if "AccessLog" in each.id] == []
