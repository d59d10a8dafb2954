"""The organisation's rules apply to every resource."""

from dataclasses import replace

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from infra.cdk.config import PlatformConfig
from infra.cdk.examples import DEV, PROD
from infra.cdk.images import REGISTRY, images
from infra.cdk.resources.platform import follow_rules
from tests.support.cdk.synthesise import PLATFORM, REPLACING
from tests.support.cdk.templates import SynthesisedEnvironment

# Types that have tags, of which each environment has some.
TAGGED = {"AWS::IAM::Role", "AWS::Lambda::Function", "AWS::S3::Bucket", "AWS::MSK::Cluster", "AWS::KMS::Key"}


def test_every_role_has_the_boundary_and_the_path(replacing: SynthesisedEnvironment) -> None:
    roles = list(replacing.resources("AWS::IAM::Role"))
    assert len(roles) > 30
    for role in roles:
        assert role.properties["PermissionsBoundary"] == PLATFORM.permissions_boundary, role
        assert role.properties["Path"] == PLATFORM.role_path, role
    for policy in replacing.resources("AWS::IAM::ManagedPolicy"):
        assert policy.properties["Path"] == PLATFORM.role_path, policy


def test_roles_without_rules_have_the_defaults_of_iam(prod: SynthesisedEnvironment) -> None:
    for role in prod.resources("AWS::IAM::Role"):
        assert role.properties.keys() & {"PermissionsBoundary", "Path"} == set(), role


def test_every_tagged_resource_has_the_tags(replacing: SynthesisedEnvironment) -> None:
    wanted = {**PLATFORM.tags, "application": "masscomm", "environment": REPLACING.name}.items()
    tagged = [each for each in replacing.resources() if isinstance(each.properties.get("Tags"), list | dict)]
    assert {each.type for each in tagged} >= TAGGED
    for each in tagged:
        tags = each.properties["Tags"]
        found = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        assert found.items() >= wanted, each


def test_stacks_are_deployed_by_the_bootstrap_roles(replacing: SynthesisedEnvironment) -> None:
    artifacts = replacing.manifest["artifacts"].values()
    roles = [each["properties"]["assumeRoleArn"] for each in artifacts if each["type"] == "aws:cloudformation:stack"]
    assert len(roles) > 5
    assert all(f"cdk-{PLATFORM.bootstrap_qualifier}-deploy-role" in role for role in roles)


def test_tags_of_the_deployment_win_over_others() -> None:
    stack = Stack(App(), "stack")
    iam.Role(stack, "role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    follow_rules(stack, DEV)
    tags = [{"Key": "application", "Value": "masscomm"}, {"Key": "environment", "Value": "dev"}]
    Template.from_stack(stack).has_resource_properties("AWS::IAM::Role", {"Tags": tags})


def test_name_prefix_is_that_of_every_name() -> None:
    named = replace(PROD, name="live", platform=PlatformConfig(name_prefix="acme-mass"))
    assert (named.prefix, named.global_prefix) == ("acme-mass-live", "acme-mass-live-eu-central-1")
    with pytest.raises(ValueError, match="the name 'staging' has at most 4 small letters"):
        replace(named, name="staging", platform=PlatformConfig(name_prefix="acme-messages"))


def test_pinning_the_public_image_changes_the_tag() -> None:
    digests = {REGISTRY.source: f"sha256:{'1' * 32}{'2' * 32}"}
    registry, *others = images(replace(DEV, platform=PlatformConfig(image_digests=digests)))
    assert (registry.source, registry.tag) == (
        f"{REGISTRY.source}@{digests[REGISTRY.source]}",
        f"{REGISTRY.tag}-{'1' * 16}",
    )
    assert others == images(DEV)[1:]
    digests = {"docker.io/other:1": f"sha256:{'1' * 64}"}
    with pytest.raises(ValueError, match="other:1 is the source of no image of dev"):
        images(replace(DEV, platform=PlatformConfig(image_digests=digests)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name_prefix": "Acme"}, "name_prefix has small letters"),
        ({"tags": {"environment": "x"}}, "'environment' is reserved"),
        ({"tags": {"aws:x": "y"}}, "'aws:x' is reserved"),
        ({"tags": {"team": "a\nb"}}, "the value of team is malformed"),
        ({"permissions_boundary": "boundary"}, "permissions_boundary is the ARN"),
        ({"role_path": "acme"}, "role_path begins and ends with a slash"),
        ({"bootstrap_qualifier": "longer-than-10"}, "bootstrap_qualifier has at most 10"),
        ({"image_digests": {"docker.io/a:1": "sha256:1"}}, "that of docker.io/a:1 is sha256: and 64"),
    ],
)
def test_rule_that_aws_would_refuse_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlatformConfig(**changed)  # type: ignore[arg-type]


def test_organisation_can_keep_the_data_of_an_environment() -> None:
    assert not DEV.keeps_data
    assert replace(DEV, platform=PlatformConfig(retain_data=True)).keeps_data
    assert PROD.keeps_data
