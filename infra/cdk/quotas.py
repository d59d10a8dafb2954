"""The quotas of an account and region that its environments share: the documented defaults, and the use of each
environment. infra.preflight compares the use with the quotas that the account has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.cdk.concurrency import occupied
from infra.cdk.config import Environment

# The vCPUs of the task of provisioning or of an operator, which may run during a deployment.
_TASK_VCPUS = 1
# A deployment starts the new tasks of a service before it stops the former ones.
_DEPLOYED = 2
_UNITS_A_VCPU = 1024


@dataclass(frozen=True, kw_only=True)
class Quota:
    """A quota of an account and region."""

    # The service's code and the name of the quota in Service Quotas.
    service: str
    name: str
    # The documented default of an account.
    default: int
    # The page of the documentation that has it.
    page: str
    # Returns the most that an environment uses at a time.
    used: Callable[[Environment], float]


def _spark_vcpus(environment: Environment) -> float:
    """Return the vCPUs of an erasure, and of the runs at the same time: the stream, a daily run, the events' job."""
    runs = 1 + 2 * environment.has("metrics") + (environment.event_sources is not None)
    return runs * environment.spark.worker_cpu * (1 + environment.spark.executors)


def _fargate_vcpus(environment: Environment) -> float:
    registry, connect, state = environment.registry, environment.connect_task, environment.directory_state
    units = 0 if environment.existing.registry is not None else _DEPLOYED * registry.tasks * registry.cpu
    units += 0 if connect is None else connect.cpu
    units += 0 if state is None else state.tasks * state.cpu
    return _TASK_VCPUS + units / _UNITS_A_VCPU


def _instances(environment: Environment) -> int:
    existing, registry = environment.existing, environment.database.registry_instance_type
    return (existing.postgres is None) + (registry is not None and existing.registry is None)


_VPC = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"
_RDS = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/CHAP_Limits.html"
_FARGATE = "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html"
# In addition to the uses, Lambda keeps infra.cdk.config.UNRESERVED for functions without a reservation.
CONCURRENCY = Quota(
    service="lambda",
    name="Concurrent executions",
    default=1_000,
    page="https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
    used=occupied,
)
SPARK = Quota(
    service="emr-serverless",
    name="Max concurrent vCPUs per account",
    default=16,
    page="https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html",
    used=_spark_vcpus,
)
# The quotas that preflight looks up in Service Quotas, by the name of its check.
LOOKED_UP: Mapping[str, Quota] = {
    "emr-serverless": SPARK,
    "fargate": Quota(
        service="fargate",
        name="Fargate On-Demand vCPU resource count",
        default=6,
        page=_FARGATE,
        used=_fargate_vcpus,
    ),
    "brokers": Quota(
        service="kafka",
        name="Number of brokers per account",
        default=90,
        page="https://docs.aws.amazon.com/msk/latest/developerguide/limits.html",
        used=lambda each: each.kafka.brokers if each.existing.kafka is None else 0,
    ),
    "vpcs": Quota(
        service="vpc", name="VPCs per Region", default=5, page=_VPC, used=lambda each: each.existing.vpc is None
    ),
    "addresses": Quota(service="ec2", name="EC2-VPC Elastic IPs", default=5, page=_VPC, used=lambda each: each.nat),
    "db instances": Quota(service="rds", name="DB instances", default=40, page=_RDS, used=_instances),
    "proxies": Quota(service="rds", name="Proxies", default=20, page=_RDS, used=lambda each: each.database.proxy),
}
QUOTAS: tuple[Quota, ...] = (CONCURRENCY, *LOOKED_UP.values())
