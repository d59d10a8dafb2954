"""Log groups: encrypted, kept as long as the environment says."""

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
    """A log group. name: only where a service asks for one, or would open it by itself."""
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        encryption_key=key,
        retention=_DAYS[environment.log_days],
        removal_policy=removal(environment),
    )


def removal(environment: Environment) -> RemovalPolicy:
    """What becomes of what holds data when its stack no longer has it."""
    return RemovalPolicy.RETAIN if environment.protected else RemovalPolicy.DESTROY
