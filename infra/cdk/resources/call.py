"""AWS API calls that a deployment makes if CloudFormation has no resource type."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import log_group

# The construct id that aws-cdk-lib gives to its function for API calls, to which it attaches a managed policy.
_CALLER = "AWS679f53fac002430cb0da5b7982bd2287"
_BASIC = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]"


def call(
    scope: Construct,
    id: str,
    *,
    environment: Environment,
    key: kms.IKey,
    sdk_call: custom.AwsSdkCall,
    statements: Sequence[iam.PolicyStatement],
) -> custom.AwsCustomResource:
    """Make an API call when the stack is created, and again whenever the call changes.

    Args:
        scope: The construct that the call belongs to.
        id: The id of the custom resource.
        environment: The environment, which determines the retention of the log.
        key: The KMS key that encrypts the log.
        sdk_call: The API call.
        statements: The permissions that the call needs.
    """
    stack = Stack.of(scope)
    log = stack.node.try_find_child("calls-log")
    made = custom.AwsCustomResource(
        scope,
        id,
        on_update=sdk_call,
        install_latest_aws_sdk=False,
        log_group=log or log_group(stack, "calls-log", environment=environment, key=key),
        policy=custom.AwsCustomResourcePolicy.from_statements(statements),
    )
    if log is None:
        caller = next(child for child in stack.node.children if child.node.id.startswith(_CALLER))
        explain(
            caller,
            "made by aws-cdk-lib: it may write its log and make the calls that its custom resources name",
            "L1",
            _BASIC,
        )
    return made
