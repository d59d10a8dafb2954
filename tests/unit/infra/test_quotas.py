"""The table of an account's quotas has the use of each environment, which preflight compares with the account."""

from dataclasses import replace

import pytest

from infra.cdk.config import UNRESERVED
from infra.cdk.examples import ENVIRONMENTS, EXISTING, PROD, SMALL
from infra.cdk.quotas import CONCURRENCY, LOOKED_UP, QUOTAS, SPARK
from tests.support.cdk.templates import SynthesisedEnvironment

# Quota → the type of the resources that it counts.
COUNTED = {
    "vpcs": "AWS::EC2::VPC",
    "addresses": "AWS::EC2::EIP",
    "db instances": "AWS::RDS::DBInstance",
    "proxies": "AWS::RDS::DBProxy",
}


@pytest.mark.parametrize("name", COUNTED)
def test_use_of_a_quota_is_that_of_the_template(environment: SynthesisedEnvironment, name: str) -> None:
    used = LOOKED_UP[name].used(ENVIRONMENTS[environment.name])
    assert used == len(list(environment.resources(COUNTED[name])))


def test_use_of_brokers_is_that_of_the_template(environment: SynthesisedEnvironment) -> None:
    (cluster,) = environment.resources("AWS::MSK::Cluster")
    used = LOOKED_UP["brokers"].used(ENVIRONMENTS[environment.name])
    assert used == cluster.properties["NumberOfBrokerNodes"]


def test_use_of_fargate_is_that_of_the_templates(environment: SynthesisedEnvironment) -> None:
    """A deployment doubles the registry's tasks; Kafka Connect's one task is stopped before the next one starts."""
    services = {
        str(each.properties["ServiceName"]): each.properties["DesiredCount"]
        for each in environment.resources("AWS::ECS::Service")
    }
    units = {
        str(each.properties["Family"]).rpartition("-")[2]: int(each.properties["Cpu"])
        for each in environment.resources("AWS::ECS::TaskDefinition")
    }
    most = 2 * services["registry"] * units["registry"] + services.get("connect", 0) * units.get("connect", 0)
    used = LOOKED_UP["fargate"].used(ENVIRONMENTS[environment.name])
    assert used >= (most + max(units["provisioner"], units["operator"])) / 1024


def test_existing_and_absent_parts_use_no_quota() -> None:
    for name in (*COUNTED, "brokers"):
        assert LOOKED_UP[name].used(EXISTING) == 0, name
    assert SPARK.used(replace(EXISTING, without=("metrics",))) == SPARK.used(EXISTING) / 3
    assert SPARK.used(replace(EXISTING, event_sources="examples/event_sources.yaml")) > SPARK.used(EXISTING)


def test_examples_exceed_documented_defaults_only() -> None:
    """docs/deploying.md names both: "Quotas" before the first deployment."""
    exceeded = {
        (name, quota.name)
        for name, environment in ENVIRONMENTS.items()
        for quota in QUOTAS
        if quota.used(environment) + UNRESERVED * (quota is CONCURRENCY) > quota.default
    }
    assert exceeded == {
        *((name, SPARK.name) for name in ENVIRONMENTS if name != "small"),
        ("prod", CONCURRENCY.name),
    }
    assert SPARK.used(SMALL) <= SPARK.default < SPARK.used(PROD)


def test_each_quota_cites_its_page() -> None:
    assert all(quota.page.startswith("https://docs.aws.amazon.com/") for quota in QUOTAS)
