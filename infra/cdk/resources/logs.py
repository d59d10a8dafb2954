"""Creates log groups, encrypted and with the environment's retention."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cdk.config import Environment

_DAYS = {
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def log_group(
    scope: Construct, id: str, *, environment: Environment, key: kms.IKey, name: str | None = None
) -> logs.LogGroup:
    """Return an encrypted log group with the environment's retention.

    Args:
        scope: The construct that the log group belongs to.
        id: The construct id of the log group.
        environment: The environment, which determines retention and removal policy.
        key: The KMS key that encrypts the log group.
        name: The name, needed only if a service requires one or would create the group itself; None: CloudFormation
            chooses it.
    """
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        encryption_key=key,
        retention=_DAYS[environment.log_days],
        removal_policy=removal(environment),
    )


def removal(environment: Environment) -> RemovalPolicy:
    """Return the removal policy of resources that hold data: they are kept in a protected environment, and where the
    organisation wants it, else deleted.

    A resource whose creation is rolled back is deleted there, too: a kept one would have the name that the repeated
    deployment needs.
    """
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if environment.keeps_data else RemovalPolicy.DESTROY
