"""Creates the custom resources that prepare buckets and applications for their removal."""

from collections.abc import Iterable

from aws_cdk import CustomResource, Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler

_MODULE = "before_removal"


def stopped_before_removal(
    scope: Construct, application: emr.CfnApplication, *, environment: Environment, key: kms.IKey
) -> CustomResource:
    """Return the custom resource that stops an application before it is removed."""
    actions = ("GetApplication", "ListJobRuns", "StopApplication")
    statements = [
        iam.PolicyStatement(
            actions=[f"emr-serverless:{action}" for action in actions], resources=[application.attr_arn]
        ),
        iam.PolicyStatement(actions=["emr-serverless:CancelJobRun"], resources=[f"{application.attr_arn}/jobruns/*"]),
    ]
    found = f"IAM5[Resource::<{Stack.of(scope).get_logical_id(application)}.Arn>/jobruns/*]"
    reason = "run ids are assigned at the start: all runs of this application"
    properties = {"ApplicationId": application.attr_application_id}
    return _prepared(scope, environment, key, properties, statements, (found, reason))


def emptied_before_removal(scope: Construct, bucket: s3.Bucket, *, environment: Environment, key: kms.IKey) -> None:
    """Empty a bucket before it is removed, in an environment whose data may be deleted."""
    if environment.keeps_data:
        return
    actions = ("ListBucketVersions", "PutBucketPolicy")
    statements = [
        iam.PolicyStatement(actions=[f"s3:{action}" for action in actions], resources=[bucket.bucket_arn]),
        iam.PolicyStatement(
            actions=["s3:DeleteObject", "s3:DeleteObjectVersion"], resources=[bucket.arn_for_objects("*")]
        ),
        iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[Stack.of(scope).stack_id]),
    ]
    found = f"IAM5[Resource::<{Stack.of(scope).get_logical_id(bucket.node.default_child)}.Arn>/*]"
    reason = "it deletes every object of this one bucket"
    _prepared(
        bucket, environment, key, {"Bucket": bucket.bucket_name, "Arn": bucket.bucket_arn}, statements, (found, reason)
    )


def _prepared(
    scope: Construct,
    environment: Environment,
    key: kms.IKey,
    properties: dict[str, str],
    statements: Iterable[iam.PolicyStatement],
    finding: tuple[str, str],
) -> CustomResource:
    """Return a custom resource of the stack's function, which has the permissions for it."""
    stack = Stack.of(scope)
    handler = stack.node.try_find_child(_MODULE)
    if not isinstance(handler, Handler):
        handler = Handler(
            stack,
            module=_MODULE,
            name=f"before-removal-{stack.stack_name.removeprefix(environment.prefix + '-')}",
            environment=environment,
            key=key,
            # The maximum, since runs end and workers stop meanwhile.
            timeout_s=900,
            variables={},
            statements=[],
        )
    for statement in statements:
        handler.role.add_to_policy(statement)
    explain(handler, finding[1], finding[0])
    resource = CustomResource(
        scope,
        "before-removal",
        resource_type="Custom::BeforeRemoval",
        service_token=handler.function.function_arn,
        properties=properties,
    )
    # Its permissions are removed after it.
    resource.node.add_dependency(handler.role)
    return resource
