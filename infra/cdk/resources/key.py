"""Creates the KMS keys of an environment: one encrypts all stored data, the other one credentials of tenants."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.logs import removal


def data_key(scope: Construct, *, environment: Environment) -> kms.IKey:
    """Return a key with yearly rotation that CloudWatch Logs, alarms, schedules and SNS of this account may use; or the
    organisation's key, whose policy has these statements.
    """
    if environment.existing.key_arn is not None:
        return kms.Key.from_key_arn(scope, "key", environment.existing.key_arn)
    stack = Stack.of(scope)
    key = kms.Key(
        scope,
        "key",
        alias=environment.prefix,
        description=f"{environment.prefix}: data at rest",
        enable_key_rotation=True,
        removal_policy=removal(environment),
    )
    logs, queues = (f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:*" for service in ("logs", "sqs"))
    _let_use(
        key,
        f"logs.{stack.region}.amazonaws.com",
        {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
        # CloudWatch Logs also encrypts with the key itself, and calls DescribeKey when a log group gets the key.
        *("kms:Encrypt", "kms:ReEncrypt*", "kms:Describe*"),
    )
    # CloudWatch alarms, SNS platform applications and the answers to SMS are published to encrypted topics, and a topic
    # sends to an encrypted queue.
    for service in ("cloudwatch", "sns", "sms-voice"):
        _let_use(key, f"{service}.amazonaws.com", {"StringEquals": {"aws:SourceAccount": stack.account}})
    # EventBridge sends to an encrypted queue. Its KMS requests contain no source account, so the condition names the
    # queues.
    _let_use(key, "events.amazonaws.com", {"ArnLike": {"kms:EncryptionContext:aws:sqs:arn": queues}})
    return key


def webhook_secrets_key(scope: Construct, *, environment: Environment) -> kms.Key:
    """Return the key of the credentials with which masscomm authenticates itself to endpoints. It is another one than
    that of stored data: a function that reads tables does not read them.
    """
    return kms.Key(
        scope,
        "webhook-secrets",
        alias=f"{environment.prefix}-webhook-secrets",
        description=f"{environment.prefix}: credentials of webhook endpoints",
        enable_key_rotation=True,
        removal_policy=removal(environment),
    )


def _let_use(key: kms.Key, service: str, conditions: Mapping[str, Any], *actions: str) -> None:
    """Permit a service to encrypt and decrypt this account's data under these conditions."""
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(service)],
            actions=["kms:Decrypt", "kms:GenerateDataKey*", *actions],
            resources=["*"],
            conditions=conditions,
        )
    )
