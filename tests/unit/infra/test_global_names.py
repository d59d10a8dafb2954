"""Environments of one name in two regions, or on one monolith, can be in one account: no name is shared."""

import re
from dataclasses import replace
from typing import Any

from infra.cdk.examples import ENVIRONMENTS, PROD
from masscomm.cdc.debezium import slot_name
from tests.support.cdk.templates import SynthesisedEnvironment, flat

# The types whose names are unique in an account, and the property of the name: their ARNs have no region.
# https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
# CloudFormation makes a name that a template leaves out, with random characters:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-name.html
GLOBAL: dict[str, tuple[str, ...]] = {
    "AWS::Budgets::Budget": ("Budget", "BudgetName"),
    "AWS::CloudFront::CachePolicy": ("CachePolicyConfig", "Name"),
    "AWS::CloudFront::Function": ("Name",),
    "AWS::CloudFront::OriginAccessControl": ("OriginAccessControlConfig", "Name"),
    "AWS::CloudFront::OriginRequestPolicy": ("OriginRequestPolicyConfig", "Name"),
    "AWS::CloudFront::ResponseHeadersPolicy": ("ResponseHeadersPolicyConfig", "Name"),
    "AWS::CloudWatch::Dashboard": ("DashboardName",),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName",),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName",),
    "AWS::IAM::Role": ("RoleName",),
    "AWS::IAM::User": ("UserName",),
    "AWS::S3::Bucket": ("BucketName",),
}


def global_names(environment: SynthesisedEnvironment) -> dict[tuple[str, str], str]:
    """Return the names that are unique in an account, by (type, resource)."""
    found = {}
    for each in environment.resources():
        value: Any = each.properties
        for part in GLOBAL.get(each.type, ()):
            value = value.get(part, {})
        if value and each.type in GLOBAL:
            found[each.type, str(each)] = flat(value)
    return found


def test_name_that_is_unique_in_an_account_has_the_region(environment: SynthesisedEnvironment) -> None:
    region, found = ENVIRONMENTS[environment.name].region, global_names(environment)
    assert {kind for kind, _ in found} >= {"AWS::Budgets::Budget", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role"}
    assert {each: name for each, name in found.items() if region not in name} == {}


def test_environments_on_one_monolith_have_slots_of_their_own() -> None:
    environments = [*ENVIRONMENTS.values(), replace(PROD, region="eu-west-1")]
    slots = {slot_name("g1", each.global_prefix) for each in environments}
    assert len(slots) == len(environments)
    # A slot has 63 small letters, digits and underscores at most:
    # https://www.postgresql.org/docs/current/logicaldecoding-explanation.html
    assert all(re.fullmatch(r"[a-z0-9_]{1,63}", slot) for slot in slots)
    assert slot_name("g1") == "masscomm_g1", "the slot of the local stack, and of version 0.1.0"
