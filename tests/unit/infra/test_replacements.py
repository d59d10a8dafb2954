"""Changes for which CloudFormation replaces a resource: it creates the new one before it deletes the former one, so the
new one needs another name, or the update fails with `already exists`.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html
"""

import json
from typing import Any

import pytest

from local.devstack.config import ROOT
from tests.support.cdk.templates import SynthesisedEnvironment

DOCS = "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference"
# Type → (the path of its name, a property whose change requires a replacement, its page).
REPLACED = {
    "AWS::Budgets::Budget": (
        ("Budget", "BudgetName"),
        "NotificationsWithSubscribers",
        f"{DOCS}/aws-resource-budgets-budget.html",
    ),
}


def test_kafka_has_no_zookeeper_from_the_start(environment: SynthesisedEnvironment) -> None:
    """A cluster with ZooKeeper has no direct upgrade to Kafka 4.

    https://docs.aws.amazon.com/msk/latest/developerguide/version-upgrades.html
    """
    (cluster,) = environment.resources("AWS::MSK::Cluster")
    assert cluster.properties["KafkaVersion"].endswith(".kraft")


def test_a_new_version_of_kafka_replaces_nothing(
    prod: SynthesisedEnvironment, replacing: SynthesisedEnvironment
) -> None:
    """A configuration with a list of versions is replaced for another version, and MSK changes only one attribute of a
    cluster at a time.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-msk-configuration.html
    https://github.com/aws/aws-cdk/issues/16765
    """
    assert _differences("AWS::MSK::Configuration", prod, replacing) == set()
    assert _differences("AWS::MSK::Cluster", prod, replacing) == {"KafkaVersion", "Tags"}


@pytest.mark.parametrize("kind", REPLACED)
def test_a_replaced_resource_has_another_name(
    prod: SynthesisedEnvironment, replacing: SynthesisedEnvironment, kind: str
) -> None:
    path, changed, _page = REPLACED[kind]
    assert changed in _differences(kind, prod, replacing)
    names = []
    for environment in (prod, replacing):
        value: Any = _properties(kind, environment)
        for each in path:
            value = value[each]
        names.append(value)
    assert names[0] != names[1]


def _properties(kind: str, environment: SynthesisedEnvironment) -> dict[str, Any]:
    """Return the properties of the one resource of a type, with the names that it has in prod."""
    (resource,) = environment.resources(kind)
    text = json.dumps(resource.properties).replace(f"masscomm-{environment.name}", "masscomm-prod")
    properties: dict[str, Any] = json.loads(text)
    return properties


def _differences(kind: str, *environments: SynthesisedEnvironment) -> set[str]:
    """Return the names of the properties with which the resource of a type differs between two environments."""
    one, other = (_properties(kind, each) for each in environments)
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def test_the_directory_is_upgraded_in_place(environment: SynthesisedEnvironment) -> None:
    """Without the update policy, CloudFormation replaces the domain for another version.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-updatepolicy.html
    """
    (domain,) = environment.resources("AWS::OpenSearchService::Domain")
    assert domain.attributes["UpdatePolicy"] == {"EnableVersionUpgrade": True}


def test_a_connector_keeps_its_name(prod: SynthesisedEnvironment, replacing: SynthesisedEnvironment) -> None:
    """Kafka Connect stores offsets by the connector's name, so a replaced connector may have no other name:
    docs/deploying.md describes the two steps in which it is replaced.
    """
    (before,) = prod.resources("AWS::KafkaConnect::Connector")
    (after, _new_generation) = replacing.resources("AWS::KafkaConnect::Connector")
    name = after.properties["ConnectorName"].replace("masscomm-replacing", "masscomm-prod")
    assert name == before.properties["ConnectorName"]
    # Its change would be a replacement as well, which is refused.
    assert "ConnectorDescription" not in before.properties
    assert "npx cdk destroy" in (ROOT / "docs" / "deploying.md").read_text().partition("## Replacing a connector")[2]
