"""Calls of an API that a deployment makes itself, for what CloudFormation has no resource of."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group

# The library's function behind them, one a stack, and the policy it gives it.
_CALLER = "AWS679f53fac002430cb0da5b7982bd2287"
_BASIC = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]"


def call(
    scope: Construct,
    id: str,
    *,
    environment: Environment,
    key: kms.IKey,
    what: custom.AwsSdkCall,
    statements: Sequence[iam.PolicyStatement],
) -> custom.AwsCustomResource:
    """Made when the stack is, and again whenever it is another. statements: what it needs."""
    stack = Stack.of(scope)
    log = stack.node.try_find_child("calls-log")
    made = custom.AwsCustomResource(
        scope,
        id,
        on_update=what,
        install_latest_aws_sdk=False,
        log_group=log or log_group(stack, "calls-log", environment=environment, key=key),
        policy=custom.AwsCustomResourcePolicy.from_statements(statements),
    )
    if log is None:
        caller = next(child for child in stack.node.children if child.node.id.startswith(_CALLER))
        explain(caller, "made by aws-cdk-lib: it may write its log and ask what its resource names", "L1", _BASIC)
    return made
