"""Configuration of each deployed environment. Review it before the first deployment."""

import dataclasses
import json
import os
from dataclasses import dataclass

# Days that CloudWatch Logs can keep lines for, as far as we use them.
LOG_DAYS = (14, 30, 90, 365)


@dataclass(frozen=True, kw_only=True)
class KafkaConfig:
    """The MSK cluster. brokers: a multiple of the zones; volume_gb: of each broker."""

    version: str = "3.9.x"
    instance_type: str = "kafka.m7g.large"
    brokers: int = 3
    volume_gb: int = 500
    replication_factor: int = 3
    min_insync_replicas: int = 2
    # A topic has as many times the partitions of schemas/topics.yaml.
    partitions_factor: int = 1


@dataclass(frozen=True, kw_only=True)
class OpenSearchConfig:
    """The directory's domain. data_nodes: a multiple of the zones; dedicated_masters: 0 or 3."""

    version: str = "OpenSearch_2.19"
    instance_type: str = "r7g.large.search"
    data_nodes: int = 3
    master_type: str = "m7g.medium.search"
    dedicated_masters: int = 3
    volume_gb: int = 100


@dataclass(frozen=True, kw_only=True)
class DatabaseConfig:
    """The metrics database and the registry's. instance classes as RDS names them, without `db.`."""

    version: str = "17.6"
    instance_type: str = "r7g.large"
    registry_instance_type: str = "t4g.small"
    multi_az: bool = True
    volume_gb: int = 100
    max_volume_gb: int = 1000
    backup_days: int = 14


@dataclass(frozen=True, kw_only=True)
class MonolithConfig:
    """The customer's database that change data capture reads.

    secret_name: in Secrets Manager, JSON with host, port, dbname, username, password and ca (the PEM of the
    authority that signed the database's certificate), made before the first deployment; cidr, port: where the database
    is reached; the route to it (peering, a transit gateway) is made by hand.
    """

    secret_name: str = "masscomm/monolith"  # noqa: S105 - a name
    cidr: str = "10.0.0.0/16"
    port: int = 5432


@dataclass(frozen=True, kw_only=True)
class RegistryConfig:
    """The schema registry. tasks: so many, each with so much CPU (1024: a vCPU) and memory.

    domain: a name of the company's that the VPC alone resolves; certificate_arn: for it, of ACM. None: one
    is asked for, and the deployment waits until the company's DNS has the record that proves whose the domain is (ACM
    says which).
    """

    tasks: int = 2
    cpu: int = 512
    memory_mb: int = 1024
    domain: str = "registry.masscomm.example"
    certificate_arn: str | None = None


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """The streaming job. vCPU and memory are of a worker; at most `executors` of them run besides the driver."""

    release: str = "emr-spark-8.0.0"
    worker_cpu: int = 2
    worker_memory_gb: int = 8
    executors: int = 2
    python: str = "python3.12"
    trigger_ms: int = 1000


@dataclass(frozen=True, kw_only=True)
class ApiConfig:
    """The REST API. domain and certificate_arn: both or neither; rate and burst: requests a second of one key;
    open_polls: long polls of one key that wait at a time.

    authorizer_secret_name: in Secrets Manager, who may see which clubs.
    """

    domain: str | None = None
    certificate_arn: str | None = None
    rate: int = 50
    burst: int = 100
    requests_a_day: int = 1_000_000
    requests_an_address: int = 2_000  # in five minutes
    open_polls: int = 5

    def __post_init__(self) -> None:
        if (self.domain is None) != (self.certificate_arn is None):
            raise ValueError("ApiConfig: domain and certificate_arn are both given, or neither")


# AWS keeps so much of an account's concurrency for functions without a reservation.
UNRESERVED = 100


@dataclass(frozen=True, kw_only=True)
class ConcurrencyConfig:
    """Environments at a time. account: the account's limit in the region, as Service Quotas says it (L-B99A9384); a new
    account begins with less than the 1,000 here.

    The others: the most that callers of the API can occupy of each function, and what is kept for it. What they leave
    is what records are processed with, one-time passwords included.
    """

    account: int = 1_000
    metrics_stream: int = 20
    metrics_handler: int = 20
    send_handler: int = 20
    # Any caller has it invoked, with a key or without.
    authorizer: int = 20

    def __post_init__(self) -> None:
        """Errors: ValueError where Lambda would refuse the reservations."""
        if sum(self.reserved.values()) > self.account - UNRESERVED:
            raise ValueError(f"concurrency: {self.reserved} leave less than {UNRESERVED} of {self.account}")

    @property
    def reserved(self) -> dict[str, int]:
        """By function."""
        return {
            "metrics_stream": self.metrics_stream,
            "metrics_handler": self.metrics_handler,
            "send_handler": self.send_handler,
            "authorizer": self.authorizer,
        }


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """What the account may send in its region, as Service Quotas and SES' account page say it.

    push_per_s, email_per_s: SNS publishes and SES e-mails a second; critical_percent: of both, what the critical lane
    begins with and bulk does not.
    """

    push_per_s: float = 1500
    email_per_s: float = 14
    critical_percent: int = 20


@dataclass(frozen=True, kw_only=True)
class ExternalServers:
    """External servers without authentication, which the deployment uses and does not make.

    kafka: host:port, comma separated; registry_url: the Confluent API; database_url: libpq's, without a password.
    """

    kafka: str
    registry_url: str
    directory_url: str
    database_url: str


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One environment.

    name: part of every stack's and resource's name; protected: nothing that holds data can be deleted, by a deployment
    or by hand; zones: letters of the region's availability zones; generation: the snapshot generation of change data
    capture, `g1,g2` while one replaces another; sender: whom e-mail comes from; platforms: SNS's kind of application
    for each platform of ours, made by hand as PREFIX-PLATFORM because they hold credentials; alarm_email: who hears of
    alarms; budget_usd: a month's;
    pollers: most event pollers of one mapping; trace_ratio: share of the sends that are traced; provisioned:
    environments kept warm for each function that somebody waits for, 0: none, and no SnapStart either; receipts:
    whether SNS and SES tell what became of messages; receipts_percent: of how many of the pushes that were delivered
    (docs/receipts.md has what it costs); servers: external ones, None: the deployment makes all.
    """

    name: str
    region: str = "eu-central-1"
    zones: tuple[str, ...] = ("a", "b", "c")
    cidr: str = "10.64.0.0/16"
    protected: bool
    log_days: int = 90
    generation: str = "g1"
    sender: str = "notifications@masscomm.example"
    unsubscribe_url: str = "https://masscomm.example/unsubscribe"
    platforms: tuple[tuple[str, str], ...] = (("gcm", "GCM"), ("apns", "APNS"))
    alarm_email: str = "operations@masscomm.example"
    budget_usd: int = 3000
    pollers: int = 4
    provisioned: int = 2
    trace_ratio: float = 0.1
    receipts: bool = True
    receipts_percent: int = 100
    servers: ExternalServers | None = None
    kafka: KafkaConfig = KafkaConfig()
    opensearch: OpenSearchConfig = OpenSearchConfig()
    database: DatabaseConfig = DatabaseConfig()
    monolith: MonolithConfig = MonolithConfig()
    registry: RegistryConfig = RegistryConfig()
    spark: SparkConfig = SparkConfig()
    api: ApiConfig = ApiConfig()
    providers: ProviderConfig = ProviderConfig()
    concurrency: ConcurrencyConfig = ConcurrencyConfig()

    def __post_init__(self) -> None:
        """Errors: ValueError, before anything is made that AWS would refuse half an hour later."""
        for name, count in (
            ("kafka.brokers", self.kafka.brokers),
            ("opensearch.data_nodes", self.opensearch.data_nodes),
        ):
            if count % len(self.zones):
                raise ValueError(f"{self.name}: {name} is {count}, no multiple of the {len(self.zones)} zones")
        if self.opensearch.dedicated_masters not in (0, 3):
            raise ValueError(f"{self.name}: opensearch.dedicated_masters is 0 or 3")
        if not self.kafka.min_insync_replicas < self.kafka.replication_factor <= self.kafka.brokers:
            raise ValueError(f"{self.name}: kafka: min_insync_replicas < replication_factor <= brokers")
        if self.log_days not in LOG_DAYS:
            raise ValueError(f"{self.name}: log_days is one of {', '.join(map(str, LOG_DAYS))}")
        # Of the functions with a reservation send_handler alone has provisioned concurrency (profiles.py).
        if not 0 <= self.provisioned <= self.concurrency.send_handler:
            raise ValueError(f"{self.name}: provisioned is no more than send_handler's reservation of concurrency")
        if not 0 <= self.trace_ratio <= 1 or not 0 <= self.receipts_percent <= 100:
            raise ValueError(f"{self.name}: trace_ratio is from 0 to 1, receipts_percent from 0 to 100")

    @property
    def prefix(self) -> str:
        """What names of this environment begin with."""
        return f"masscomm-{self.name}"


DEV = Environment(
    name="dev",
    protected=False,
    log_days=14,
    budget_usd=1500,
    platforms=(("gcm", "GCM"), ("apns", "APNS_SANDBOX")),
    pollers=2,
    provisioned=0,
    kafka=KafkaConfig(instance_type="kafka.t3.small", volume_gb=50),
    opensearch=OpenSearchConfig(instance_type="t3.medium.search", dedicated_masters=0, volume_gb=20),
    database=DatabaseConfig(instance_type="t4g.medium", multi_az=False, volume_gb=20, backup_days=1),
    registry=RegistryConfig(domain="registry.dev.masscomm.example"),
)

STAGING = Environment(
    name="staging",
    protected=False,
    log_days=30,
    provisioned=1,
    kafka=KafkaConfig(volume_gb=200),
    database=DatabaseConfig(instance_type="r7g.large", multi_az=False, backup_days=7),
    registry=RegistryConfig(domain="registry.staging.masscomm.example"),
)

PROD = Environment(
    name="prod",
    protected=True,
    log_days=365,
    budget_usd=15_000,
    pollers=20,
    provisioned=4,
    kafka=KafkaConfig(instance_type="kafka.m7g.xlarge", volume_gb=1000, partitions_factor=4),
    opensearch=OpenSearchConfig(instance_type="r7g.xlarge.search"),
    database=DatabaseConfig(instance_type="r7g.xlarge", volume_gb=200),
    concurrency=ConcurrencyConfig(metrics_stream=100, metrics_handler=80, send_handler=100, authorizer=50),
)


LOCAL, SERVERS = "local", "MASSCOMM_SERVERS"


def local(servers: ExternalServers) -> Environment:
    """What stands on one machine: LocalStack, and the servers that LocalStack lacks."""
    return Environment(
        name=LOCAL,
        region="us-east-1",
        protected=False,
        log_days=14,
        pollers=1,
        provisioned=0,
        receipts=False,
        servers=servers,
    )


ENVIRONMENTS = {each.name: each for each in (DEV, STAGING, PROD)}


def environment_of(name: str) -> Environment:
    """The environment of that name; the servers of `local` are those of MASSCOMM_SERVERS.

    Errors: ValueError where there is no such environment, or MASSCOMM_SERVERS does not name its servers.
    """
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    if name != LOCAL:
        raise ValueError(f"there is no environment {name!r}: {', '.join((*ENVIRONMENTS, LOCAL))}")
    try:
        return local(ExternalServers(**json.loads(os.environ[SERVERS])))
    except (KeyError, ValueError, TypeError) as error:
        fields = ", ".join(field.name for field in dataclasses.fields(ExternalServers))
        raise ValueError(f"{SERVERS} must be a JSON object of {fields}: {error!r}") from error
