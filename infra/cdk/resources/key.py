"""The one key that everything of an environment is encrypted with at rest."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.resources.logs import removal
from infra.cdk.settings import Environment


def data_key(scope: Construct, *, environment: Environment) -> kms.Key:
    """A key that is rotated each year, which CloudWatch Logs, alarms, schedules and SNS of this account may use."""
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
    # Alarms and platform applications write to an encrypted topic, a schedule and a topic to an encrypted queue.
    for service in ("cloudwatch", "events", "sns"):
        key.grant_encrypt_decrypt(
            iam.ServicePrincipal(
                f"{service}.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
            )
        )
    return key
