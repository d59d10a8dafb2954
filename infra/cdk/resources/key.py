"""The one key that everything of an environment is encrypted with at rest."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.resources.logs import removal
from infra.cdk.settings import Environment


def data_key(scope: Construct, *, environment: Environment) -> kms.Key:
    """A key that is rotated each year, which CloudWatch Logs and its alarms may use for this account's log groups."""
    stack = Stack.of(scope)
    key = kms.Key(
        scope,
        "key",
        alias=environment.prefix,
        description=f"{environment.prefix}: data at rest",
        enable_key_rotation=True,
        removal_policy=removal(environment),
    )
    key.grant_encrypt_decrypt(
        iam.ServicePrincipal(
            f"logs.{stack.region}.amazonaws.com",
            conditions={
                "ArnLike": {
                    "kms:EncryptionContext:aws:logs:arn": f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"
                }
            },
        )
    )
    key.grant_encrypt_decrypt(
        iam.ServicePrincipal(
            "cloudwatch.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        )
    )
    return key
