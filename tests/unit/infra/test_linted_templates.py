"""cfn-lint's rules over the templates of all environments: properties, versions that age, and the actions of policies.
`make check` runs it over those of the smallest (.cfnlintrc.yaml).
"""

import json
import re
from collections.abc import Iterator
from itertools import batched
from typing import Any

import pytest
import yaml
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from cfnlint.data import AdditionalSpecs
from cfnlint.helpers import load_resource

from infra.cdk.config import LOCAL
from local.devstack.config import ROOT
from tests.support.cdk.resolved import REGION, Resolver
from tests.support.cdk.synthesise import REPLACING, SYNTHESISED
from tests.support.cdk.templates import SynthesisedEnvironment, as_list, role_statements

# The rules that no template has to keep, with their reasons.
IGNORED = set(yaml.safe_load((ROOT / ".cfnlintrc.yaml").read_text())["ignore_checks"])
# Ageing rules, which must not be ignored: Lambda's runtimes (deprecated, not creatable, not updatable), and versions of
# RDS that cannot be created. https://github.com/aws-cloudformation/cfn-lint/blob/main/docs/rules.md
AGEING = {"W2531", "E2531", "E2533", "W3691"}


def _findings(template: Any, *also: str) -> list[str]:
    """Return cfn-lint's errors and warnings, and those of informational rules that are named."""
    arguments = ManualArgs(regions=[REGION], ignore_checks=[*IGNORED], include_checks=[*also])
    return [
        f"{each.rule.id} {each.path}: {each.message[:200]}" for each in lint(json.dumps(template), config=arguments)
    ]


def _policies(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "Resources": {
            f"policy{number}": {
                "Type": "AWS::IAM::ManagedPolicy",
                "Properties": {"PolicyDocument": {"Version": "2012-10-17", "Statement": list(some)}},
            }
            for number, some in enumerate(batched(statements, 10, strict=False))
        }
    }


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*SYNTHESISED, REPLACING.name, LOCAL])
def test_no_template_has_a_finding(synthesised: dict[str, SynthesisedEnvironment], name: str) -> None:
    templates = synthesised[name].templates()
    assert {stack: found for stack, each in templates.items() if (found := _findings(each))} == {}


# Type → a property with a value that has aged, and the rule that finds it.
AGED = {
    "AWS::RDS::DBInstance": ({"EngineVersion": "17.1"}, "W3691"),
    "AWS::Lambda::Function": ({"Runtime": "nodejs20.x"}, "W2531"),
}


def test_aged_versions_and_useless_actions_are_findings(synthesised: dict[str, SynthesisedEnvironment]) -> None:
    """One template for all of them, because each run of cfn-lint takes a second."""
    queue = f"arn:aws:sqs:{REGION}:111111111111:queue"
    actions = ("s3:GetObject", "kafka-cluster:ReadTopic", "sqs:ReceiveMessage")
    aged = _policies([{"Effect": "Allow", "Action": action, "Resource": queue} for action in actions])["Resources"]
    for kind, (changed, _) in AGED.items():
        found = next(each.properties for each in synthesised["small"].resources(kind))
        # Properties with references would be findings of their own.
        kept = {name: value for name, value in found.items() if not re.search(r'"(Ref|Fn::\w+)"', json.dumps(value))}
        aged[kind.replace("::", "")] = {"Type": kind, "Properties": kept | changed}
    rules = [line.partition(" ")[0] for line in _findings({"Resources": aged}, "I3510")]
    assert {*rules} >= {rule for _, rule in AGED.values()}
    assert [each for each in rules if each in ("I3510", "W3037")] == ["I3510", "W3037"]
    assert not AGEING & IGNORED


# --- policies ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def granted(synthesised: dict[str, SynthesisedEnvironment]) -> list[dict[str, Any]]:
    """Return the distinct statements of all roles, with the ARNs that AWS assigns."""
    found = {}
    for name in (*SYNTHESISED, REPLACING.name):
        resolver = Resolver(synthesised[name])
        for resource, statement in role_statements(synthesised[name]):
            resolved = resolver(resource.stack, statement)
            found[json.dumps(resolved, sort_keys=True).replace(f"masscomm-{name}", "masscomm-prod")] = resolved
    return list(found.values())


def test_policies_name_known_actions_and_their_resources(granted: list[dict[str, Any]]) -> None:
    """I3510: each action has a resource of a type that it acts on. W3037: each action exists."""
    assert len(granted) > 100
    assert _findings(_policies(granted), "I3510") == []


# Actions that the reference lists without a type of resource, and that services nevertheless authorize for a resource.
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
AUTHORIZED_FOR_RESOURCES = {
    # https://docs.aws.amazon.com/msk/latest/developerguide/mvpc-cluster-owner-action-policy.html
    "kafka:GetBootstrapBrokers",
    # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/iam-policy-example-lamda-process-dynamodb-streams.html
    "dynamodb:ListStreams",
    # https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/logging.html
    "logs:DescribeLogGroups",
    # Applications and endpoints of mobile push have ARNs, and no page says that they are ignored. A policy that names
    # them: https://github.com/Wolox/tech-guides/pull/63
    *("sns:CreatePlatformEndpoint", "sns:DeleteEndpoint", "sns:SetEndpointAttributes"),
    "sns:SetPlatformApplicationAttributes",
}


def test_actions_without_resource_types_name_all_resources(granted: list[dict[str, Any]]) -> None:
    """With the ARN of a resource, such an action is refused."""
    services = load_resource(AdditionalSpecs, "Policies.json")
    refused = {
        action
        for statement in granted
        if as_list(statement["Resource"]) != ["*"]
        for action in _actions(statement)
        if not services[action.partition(":")[0]]["Actions"][action.partition(":")[2].lower()].get("Resources")
    }
    assert refused == AUTHORIZED_FOR_RESOURCES


def _actions(statement: dict[str, Any]) -> Iterator[str]:
    for action in as_list(statement["Action"]):
        # A pattern such as kms:GenerateDataKey* is I3510's.
        if "*" not in action:
            yield action
