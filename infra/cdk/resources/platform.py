"""Applies the organisation's rules to all resources: tags, and the path and permissions boundary of roles."""

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from infra.cdk.config import OWN_TAGS, Environment, PlatformConfig


def follow_rules(scope: IConstruct, environment: Environment) -> None:
    """Apply the rules of the environment's organisation to every resource in a scope."""
    platform = environment.platform
    own = dict(zip(OWN_TAGS, ("masscomm", environment.name), strict=True))
    for tag, value in {**platform.tags, **own}.items():
        # CDK tags this resource type, but CloudFormation refuses tags on it.
        cdk.Tags.of(scope).add(tag, value, exclude_resource_types=["AWS::RDS::DBProxyTargetGroup"])
    if platform.permissions_boundary is not None or platform.role_path != "/":
        # CDK calls an aspect of Python for every construct, which takes seconds: only where it has an effect.
        cdk.Aspects.of(scope).add(_Roles(platform))


@jsii.implements(cdk.IAspect)
class _Roles:
    def __init__(self, platform: PlatformConfig) -> None:
        self._platform = platform

    def visit(self, node: IConstruct) -> None:
        """Set the path of a role or managed policy, and the boundary of a role."""
        if isinstance(node, (iam.CfnRole, iam.CfnManagedPolicy)):
            node.path = self._platform.role_path
        if isinstance(node, iam.CfnRole):
            node.permissions_boundary = self._platform.permissions_boundary
