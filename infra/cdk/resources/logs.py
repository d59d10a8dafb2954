"""Log groups, encrypted and with the environment's retention."""

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
    """An encrypted log group with the environment's retention.

    Args:
        scope: the construct that it belongs to.
        id: its construct id.
        environment: gives retention and removal policy.
        key: encrypts it.
        name: only where a service requires a name or would create the group itself; None: CloudFormation names it.
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
    """The removal policy of resources that hold data: kept in a protected environment, else deleted."""
    return RemovalPolicy.RETAIN if environment.protected else RemovalPolicy.DESTROY
