"""The settings of a deployed environment. Each environment is a YAML file (infra/cdk/environments.py)."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parseaddr
from importlib.resources import files
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from infra.cdk.clients import ClientConfig, ConsumerConfig, ProducerConfig
from masscomm.channels.unsubscribe_links import checked_mailbox
from masscomm.domain.categories import optional_categories
from masscomm.domain.channels import CHANNELS
from masscomm.domain.lanes import BROADCASTS
from masscomm.domain.time_limits import ARCHIVE_KEPT_DAYS, RECIPIENT_LOG_KEPT_DAYS
from masscomm.errors import Stop
from masscomm.http.scopes import ROLE_LIMITS, Role
from masscomm.kafka.event_sources import EventSources, read_event_sources

CHECKOUT = Path(__file__).parents[2]
# The retentions of CloudWatch Logs that an environment may have, in days.
LOG_DAYS = (14, 30, 90, 365)
# The longest prefix of names: the domain PREFIX-directory has at most 28 characters.
# https://docs.aws.amazon.com/opensearch-service/latest/APIReference/API_CreateDomain.html
LONGEST_PREFIX = 18
# The tags that the deployment sets itself.
OWN_TAGS = ("application", "environment")
# The path of the registry's Confluent-compatible API, and the port on which it accepts writes.
CONFLUENT_API = "/apis/ccompat/v7"
REGISTRY_WRITES = 8444


@dataclass(frozen=True, kw_only=True)
class KafkaConfig:
    """The configuration of the MSK cluster.

    MSK changes one attribute of a cluster at a time: change version, type, number or volumes of the brokers in
    deployments of their own.
    """

    # In KRaft mode, the only one of Kafka 4: later versions are upgrades in place.
    # https://docs.aws.amazon.com/msk/latest/developerguide/kraft-intro.html
    # https://docs.aws.amazon.com/msk/latest/developerguide/version-upgrades.html
    version: str = "3.9.x.kraft"
    instance_type: str = "kafka.m7g.large"
    # The number of brokers, a multiple of the number of zones.
    brokers: int = 3
    # The volume size of each broker in GB.
    volume_gb: int = 500
    replication_factor: int = 3
    min_insync_replicas: int = 2
    # A factor by which the partition counts of schemas/topics.yaml are multiplied.
    partitions_factor: int = 1
    # Whether programs in other VPCs and accounts may connect by AWS PrivateLink (port 14001 and more). MSK permits it
    # for an existing cluster only: turn it on in a deployment after the first.
    # https://docs.aws.amazon.com/msk/latest/developerguide/mvpc-cluster-owner-action-turn-on.html
    multi_vpc: bool = False
    # Whether MSK publishes metrics by topic, each of which is charged like a custom metric.
    # https://docs.aws.amazon.com/msk/latest/developerguide/metrics-details.html
    topic_metrics: bool = True


@dataclass(frozen=True, kw_only=True)
class OpenSearchConfig:
    """The configuration of the OpenSearch domain."""

    version: str = "OpenSearch_2.19"
    instance_type: str = "r7g.large.search"
    # The number of data nodes, a multiple of the number of zones.
    data_nodes: int = 3
    master_type: str = "m7g.medium.search"
    # The number of dedicated master nodes: 0 or 3.
    dedicated_masters: int = 3
    volume_gb: int = 100


@dataclass(frozen=True, kw_only=True)
class DatabaseConfig:
    """The configuration of the metrics database, and of the schema registry's database."""

    version: str = "17.6"
    # The instance class as RDS names it, without `db.`.
    instance_type: str = "r7g.large"
    # The instance class of the registry's own instance; None: the registry has a database in the metrics instance.
    registry_instance_type: str | None = "t4g.small"
    # Whether functions connect by a proxy. Otherwise the maximum of the instance's connections limits them.
    proxy: bool = True
    multi_az: bool = True
    volume_gb: int = 100
    max_volume_gb: int = 1000
    backup_days: int = 14


@dataclass(frozen=True, kw_only=True)
class MonolithConfig:
    """The customer's database from which change data capture reads."""

    # The name of a secret in Secrets Manager: JSON with host, port, dbname, username, password and ca (the PEM of the
    # authority that signed the database's certificate). Create it before the first deployment.
    secret_name: str = "masscomm/monolith"  # noqa: S105 - a name
    # The network and the port of the database. Create the route to it (peering or a transit gateway) by hand.
    cidr: str = "10.0.0.0/16"
    port: int = 5432
    # The ARN of the KMS key that encrypts the secret; None: AWS' own key for secrets.
    key_arn: str | None = None


@dataclass(frozen=True, kw_only=True)
class RegistryConfig:
    """The configuration of the schema registry's service on Fargate."""

    tasks: int = 2
    # The CPU units of a task; 1024 units are one vCPU.
    cpu: int = 512
    # The memory of a task in MB.
    memory_mb: int = 1024
    # The host name of the registry, in a domain of the company; it resolves only inside the VPC.
    domain: str = "registry.masscomm.example"
    # The ARN of the certificate in ACM for that host name. None: the deployment requests a certificate, and waits until
    # the company's DNS has the validation record that ACM shows.
    certificate_arn: str | None = None

    @property
    def url(self) -> str:
        """Return the base URL of the API for look-ups; writes are refused there."""
        return f"https://{self.domain}{CONFLUENT_API}"

    @property
    def writes_url(self) -> str:
        """Return the base URL of the API for provisioning, which alone reaches it."""
        return f"https://{self.domain}:{REGISTRY_WRITES}{CONFLUENT_API}"


@dataclass(frozen=True, kw_only=True)
class ConnectTaskConfig:
    """The configuration of Kafka Connect in a task on Fargate."""

    # The CPU units of the task; 1024 units are one vCPU.
    cpu: int = 256
    # The memory of the task in MB.
    memory_mb: int = 1024


# The port of the first task of directory_state, on the load balancer of the schema registry; each further task has the
# next one.
DIRECTORY_STATE = 9402


@dataclass(frozen=True, kw_only=True)
class DirectoryStateConfig:
    """The configuration of directory_state: tasks on Fargate, each of which has the whole directory in memory."""

    tasks: int = 2
    # The CPU units of a task; 1024 units are one vCPU. A task has a server, and the feeders.
    cpu: int = 2048
    # The memory of a task in MB.
    memory_mb: int = 8192
    feeders: int = 1
    # The file system of a task in GB, which has the store.
    # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-task-storage.html
    volume_gb: int = 21
    # Whether functions look up here. Without, they look up in OpenSearch, and the tasks are only fed: deploy a new
    # service so, and change this in the next deployment.
    answers: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.tasks <= 9:
            raise ValueError("DirectoryStateConfig: tasks is from 1 to 9")
        if not 21 <= self.volume_gb <= 200:
            raise ValueError("DirectoryStateConfig: volume_gb is from 21 to 200")
        if self.feeders < 1:
            raise ValueError("DirectoryStateConfig: feeders is at least 1")

    @property
    def ports(self) -> tuple[int, ...]:
        """Return the port of each task on the load balancer."""
        return tuple(range(DIRECTORY_STATE, DIRECTORY_STATE + self.tasks))


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """The configuration of the streaming job on EMR Serverless.

    Release and sizes can be changed while the job is stopped (infra/metrics_job.py).
    """

    release: str = "emr-spark-8.0.0"
    # The number of vCPUs of the driver and of each executor.
    worker_cpu: int = 2
    # The memory of the driver and of each executor in GB.
    worker_memory_gb: int = 8
    # The number of executors at the start and at most, in addition to the driver; idle ones end.
    executors: int = 2
    python: str = "python3.12"
    trigger_ms: int = 1000
    # The minutes between runs that count all records there are and end. None: one run counts without an end.
    every_minutes: int | None = None
    # Whether a row is stored for each recipient of an outcome; without it the API has neither recipients of a send nor
    # notifications of a user.
    recipient_log: bool = True
    # How many days rows of the log of recipients are kept.
    recipient_log_days: int = RECIPIENT_LOG_KEPT_DAYS
    # Further arguments of spark_metrics.retention, such as "--minutes-days", "60".
    retention: tuple[str, ...] = ()
    # How many days the archive's records are kept, from which metrics can be counted again.
    archive_days: int = ARCHIVE_KEPT_DAYS
    # The number of archives. Raise it after the loss of the Kafka cluster: records of another cluster have equal
    # positions. The job writes to the last one.
    archive: int = 1
    # The hour (UTC) of the first of the daily runs: retention; an hour later maintenance, and two hours after it
    # recompute. Environments of one account and region have different hours.
    daily_runs_hour: int = 1


@dataclass(frozen=True, kw_only=True)
class PeopleConfig:
    """The OpenID Connect issuer with whose access tokens people use the API."""

    # The issuer's identifier, the claim `iss` of its tokens.
    issuer: str
    # The address of its public keys (`jwks_uri` of its metadata).
    keys_url: str
    # The identifier of this API at the issuer, the claim `aud`.
    audience: str = "masscomm"
    # The names of the claims with a person's roles and clubs, in access tokens and in ID tokens.
    roles_claim: str = "roles"
    clubs_claim: str = "clubs"
    # Role → limit → its maximum, for each person: requests_a_minute, recipients_a_day.
    role_limits: Mapping[Role, Mapping[str, int]] = field(default_factory=lambda: ROLE_LIMITS)

    def __post_init__(self) -> None:
        if not self.keys_url.startswith("https://"):
            raise ValueError("PeopleConfig: keys_url is an address of https")


@dataclass(frozen=True, kw_only=True)
class MailboxConfig:
    """The mailbox to which recipients of e-mails write to unsubscribe. SES receives its e-mails; the MX record of its
    domain is the operator's (https://docs.aws.amazon.com/ses/latest/dg/receiving-email-mx-record.html).
    """

    # An address in a domain that is verified in SES.
    address: str
    # The receipt rule set to which the mailbox's rule is added. A region has one active rule set, so that no deployment
    # activates one: https://docs.aws.amazon.com/ses/latest/APIReference/API_SetActiveReceiptRuleSet.html.
    rule_set: str

    def __post_init__(self) -> None:
        """Raises ValueError if the address is not one for a mailto address."""
        try:
            checked_mailbox(self.address)
        except Stop as error:
            raise ValueError(f"address: {error}") from error


# The firewall counts the requests of an address over five minutes (rest_api.py, door.py).
_ADDRESS_WINDOW_S = 300


@dataclass(frozen=True, kw_only=True)
class ApiConfig:
    """The configuration of the REST API."""

    # The custom domain of the API. Set domain and certificate_arn together, or neither of them.
    domain: str | None = None
    certificate_arn: str | None = None
    # The maximum number of requests per second with one API key.
    rate: int = 50
    burst: int = 100
    requests_a_day: int = 1_000_000
    # The maximum number of requests from one IP address in five minutes.
    requests_an_address: int = 15_000
    # Whether firewalls count the requests of each address, and refuse known attacks. Without them, the rates above and
    # those of incoming webhooks apply to all addresses together.
    firewall: bool = True
    # The maximum numbers of incoming webhooks per second, at once, and from one IP address in five minutes.
    incoming_rate: int = 500
    incoming_burst: int = 1_000
    incoming_an_address: int = 150_000
    # The maximum number of concurrent long polls with one API key.
    open_polls: int = 5
    # The issuer of people's access tokens; None: only API keys are accepted.
    people: PeopleConfig | None = None

    def __post_init__(self) -> None:
        if (self.domain is None) != (self.certificate_arn is None):
            raise ValueError("ApiConfig: set both domain and certificate_arn, or neither")
        # The servers of a company share one address, and so do those of a system that emits incoming webhooks. The
        # firewall must not refuse what API Gateway permits.
        for rate, address in (("rate", "requests_an_address"), ("incoming_rate", "incoming_an_address")):
            least = _ADDRESS_WINDOW_S * getattr(self, rate)
            if getattr(self, address) < least:
                raise ValueError(f"ApiConfig: {address} is at least {least}, {_ADDRESS_WINDOW_S} s of {rate}")


# The region in which CloudFront reads certificates and web ACLs. Source: "Requirements for using SSL/TLS certificates
# with CloudFront" in its developer guide.
EDGE_REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class ConsoleConfig:
    """The configuration of the web console."""

    # The host name of the console, and of the API for people; create its DNS record by hand. CloudFront's own host
    # names would accept TLS 1.0.
    domain: str
    # The certificate of that host name in ACM, in the region us-east-1.
    certificate_arn: str
    # The identifier of the console at the issuer, which must know https://DOMAIN/ as its redirect address.
    client_id: str = "masscomm-console"
    # The scopes of a sign-in. With `openid offline_access` and an issuer that rotates refresh tokens of public clients,
    # the console renews access tokens; without, people are redirected to the issuer when a token ends.
    scope: str = "openid"
    # The origins, other than the issuer's, that a sign-in calls, such as that of a token endpoint on another host.
    sign_in_origins: tuple[str, ...] = ()
    # The ARN of a web ACL with the scope CLOUDFRONT; None: the firewall of the API alone.
    web_acl_arn: str | None = None

    def __post_init__(self) -> None:
        for name, arn in (("certificate_arn", self.certificate_arn), ("web_acl_arn", self.web_acl_arn)):
            if arn is not None and f":{EDGE_REGION}:" not in arn:
                raise ValueError(f"ConsoleConfig: {name} is in {EDGE_REGION}")
        for origin in self.sign_in_origins:
            if not re.fullmatch(r"https://[a-z0-9.-]+(:\d+)?", origin):
                raise ValueError(f"ConsoleConfig: sign_in_origins has {origin!r}, no origin such as https://host")


# Lambda keeps at least this much of an account's concurrency for functions without a reservation.
UNRESERVED = 100


@dataclass(frozen=True, kw_only=True)
class ConcurrencyConfig:
    """Concurrent executions of Lambda functions: the account's quota, and the reservation of each function that API
    callers invoke.

    A reservation is a guarantee and an upper bound. The functions that process records, one-time passwords included,
    share the unreserved remainder.
    """

    # The account's quota in the region (L-B99A9384 in Service Quotas). A new account has less than 1,000.
    account: int = 1_000
    metrics_stream: int = 30
    metrics_handler: int = 18
    send_handler: int = 60
    sends_api: int = 12
    sends_stream: int = 16
    previews: int = 12
    operations_handler: int = 16
    key_revocation: int = 5
    preferences_handler: int = 20
    users_stream: int = 28
    events_api: int = 24
    # Few callers count at a time, each for up to 20 s.
    audiences: int = 5
    # The reservation of the authorizer, which every request invokes, with or without a valid key.
    authorizer: int = 20

    def __post_init__(self) -> None:
        """Check the reservations.

        Raises:
            ValueError: Lambda would refuse them.
        """
        if sum(self.reserved.values()) > self.account - UNRESERVED:
            raise ValueError(f"concurrency: {self.reserved} leave less than {UNRESERVED} of {self.account}")

    @property
    def reserved(self) -> dict[str, int]:
        """Return the reservation of each function by its name."""
        return {name: number for name, number in dataclasses.asdict(self).items() if name != "account"}


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """The account's sending quotas in its region, as shown in Service Quotas and on the account page of SES."""

    # The quota of messages per second, by channel. SMS, of which files of version 0.1.0 know nothing, may be missing.
    per_s: Mapping[str, float] = field(
        default_factory=lambda: {name: channel.quota_per_s for name, channel in CHANNELS.items()}
    )
    # The share of each quota with which the critical lane begins, in percent; the other lanes begin with the remainder.
    critical_percent: int = 20

    def __post_init__(self) -> None:
        if not CHANNELS.keys() - {"sms"} <= self.per_s.keys() <= CHANNELS.keys():
            raise ValueError(f"per_s has a quota for each of {', '.join(CHANNELS)}")
        object.__setattr__(self, "per_s", {"sms": CHANNELS["sms"].quota_per_s, **self.per_s})
        if not 0 < self.critical_percent < 100:
            raise ValueError("critical_percent is from 1 to 99")


@dataclass(frozen=True, kw_only=True)
class PlatformConfig:
    """The rules of the organisation for resources in its accounts."""

    # The first part of the names of stacks and resources.
    name_prefix: str = "masscomm"
    # Tags of every resource, in addition to `application` and `environment`.
    tags: Mapping[str, str] = field(default_factory=dict)
    # The ARN of the managed policy that is the permissions boundary of every role.
    permissions_boundary: str | None = None
    # The IAM path of every role and managed policy.
    role_path: str = "/"
    # The qualifier of `cdk bootstrap`.
    bootstrap_qualifier: str = "hnb659fds"
    # The digests (`sha256:…`) of public images, by the addresses that `masscomm images` prints: it copies no other
    # content. Without one, it copies what the registry has under the tag.
    image_digests: Mapping[str, str] = field(default_factory=dict)
    # Whether data remains when its stack is deleted, also in an environment that is not protected.
    retain_data: bool = False

    def __post_init__(self) -> None:
        """Check values that AWS would refuse.

        Raises:
            ValueError: A value has another form, or is reserved.
        """
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name_prefix):
            raise ValueError("name_prefix has small letters, digits and hyphens, and begins with a letter")
        # https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
        for name, value in self.tags.items():
            if name in OWN_TAGS or not re.fullmatch(r"(?!aws:)[\w .:/=+@-]{1,128}", name):
                raise ValueError(f"tags: {name!r} is reserved or malformed")
            if not re.fullmatch(r"[\w .:/=+@-]{0,256}", value):
                raise ValueError(f"tags: the value of {name} is malformed")
        boundary = self.permissions_boundary
        if boundary is not None and not re.fullmatch(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+", boundary):
            raise ValueError("permissions_boundary is the ARN of a managed policy")
        # https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
        if not re.fullmatch(r"/([\x21-\x2e\x30-\x7e]+/)*", self.role_path) or len(self.role_path) > 512:
            raise ValueError("role_path begins and ends with a slash")
        # https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-customizing.html
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,10}", self.bootstrap_qualifier):
            raise ValueError("bootstrap_qualifier has at most 10 letters, digits, hyphens and underscores")
        for source, digest in self.image_digests.items():
            if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
                raise ValueError(f"image_digests: that of {source} is sha256: and 64 hexadecimal digits")


# The resource in the ARN of a KMS key.
_KEY = r"key/[\w-]+"


def _checked_id(kind: str, value: str) -> None:
    """Raises ValueError if a value is not an id of EC2, such as sg-0123456789abcdef0."""
    if not re.fullmatch(rf"{kind}-[0-9a-f]{{8,17}}", value):
        raise ValueError(f"{value!r} is not an id such as {kind}-0123456789abcdef0")


def _checked_arn(service: str, resource: str, value: str, message: str) -> None:
    """Raises ValueError with the message if a value is not an ARN whose resource matches the expression."""
    if not re.fullmatch(rf"arn:aws[a-z-]*:{service}:[a-z0-9-]+:\d{{12}}:{resource}", value):
        raise ValueError(message)


@dataclass(frozen=True, kw_only=True)
class ExistingVpc:
    """A VPC of the organisation. It resolves DNS, and its subnets reach AWS' services by endpoints or a NAT gateway."""

    id: str
    # A private subnet in each of `zones`, in their order.
    subnet_ids: tuple[str, ...]
    # The security group of the VPC's interface endpoints, which gets a rule for each caller; None: a NAT gateway, or
    # endpoints that admit the VPC's network.
    endpoints_group: str | None = None

    def __post_init__(self) -> None:
        _checked_id("vpc", self.id)
        for subnet in self.subnet_ids:
            _checked_id("subnet", subnet)
        if self.endpoints_group is not None:
            _checked_id("sg", self.endpoints_group)


@dataclass(frozen=True, kw_only=True)
class ExistingKafka:
    """A provisioned MSK cluster with sign-in by IAM. Names of topics have no prefix: a cluster has one environment."""

    cluster_arn: str
    # The security group of its brokers, which gets a rule for each party. Event pollers run in it.
    security_group: str

    def __post_init__(self) -> None:
        _checked_arn("kafka", r"cluster/[\w-]+/[\w-]+", self.cluster_arn, "cluster_arn is the ARN of an MSK cluster")
        _checked_id("sg", self.security_group)

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self.cluster_arn.split("/")[1]


# The tables that `masscomm keys` and `masscomm audit` use by their names, from any host.
_KEPT_TABLES = frozenset({"api_keys", "audit_log"})


def tables() -> frozenset[str]:
    """Return the names of the tables in schemas/dynamodb."""
    return frozenset(path.name.removesuffix(".json") for path in files("schemas").joinpath("dynamodb").iterdir())


@dataclass(frozen=True, kw_only=True)
class ExistingOpenSearch:
    """A domain in the VPC with fine-grained access control, in which the role `provisioner` is an administrator. Names
    of indices have no prefix: a domain has one environment.
    """

    domain_arn: str
    # The host of its endpoint in the VPC, without https://.
    endpoint: str
    # The security group of its endpoint, which gets a rule for each party.
    security_group: str

    def __post_init__(self) -> None:
        domain = "domain/[a-z][a-z0-9-]{2,27}"
        _checked_arn("es", domain, self.domain_arn, "domain_arn is the ARN of an OpenSearch domain")
        if not re.fullmatch(r"vpc-[a-z0-9-]+(\.[a-z0-9-]+)+", self.endpoint):
            raise ValueError("endpoint is a host such as vpc-NAME-ID.REGION.es.amazonaws.com")
        _checked_id("sg", self.security_group)

    @property
    def name(self) -> str:
        """Return the name of the domain."""
        return self.domain_arn.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class ExistingPostgres:
    """An RDS instance of PostgreSQL with sign-in by IAM, for the metrics. Provisioning creates databases and roles in
    it. Their names have no prefix: an instance has one environment. `database.instance_type` is its class.
    """

    # The host of its endpoint, and the port.
    host: str
    port: int = 5432
    # The resource id, which permissions to sign in name.
    resource_id: str
    # A secret with `username` and `password` of a role that creates databases and roles, and may grant rds_iam.
    secret_arn: str
    # The ARN of the KMS key that encrypts the secret; None: AWS' own key for secrets.
    secret_key_arn: str | None = None
    # Its security group, which gets a rule for each party.
    security_group: str

    def __post_init__(self) -> None:
        # https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/USER_ConnectToPostgreSQLInstance.html
        if not re.fullmatch(r"[a-z][a-z0-9-]*\.[a-z0-9]+\.[a-z0-9-]+\.rds\.amazonaws\.com(\.cn)?", self.host):
            raise ValueError("host is the endpoint of an RDS instance")
        if not re.fullmatch(r"db-[A-Z0-9]+", self.resource_id):
            raise ValueError("resource_id is an id such as db-ABCDEFGHIJKL")
        _checked_secret(self.secret_arn, self.secret_key_arn)
        _checked_id("sg", self.security_group)

    @property
    def instance(self) -> str:
        """Return the identifier of the instance."""
        return self.host.partition(".")[0]


def _checked_secret(secret_arn: str, key_arn: str | None) -> None:
    """Raises ValueError if one is not the whole ARN of a secret, or of a key."""
    # https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html
    form = r"secret:[\w/+=.@!-]+-\w{6}"
    _checked_arn("secretsmanager", form, secret_arn, "secret_arn is the whole ARN, with its last six characters")
    if key_arn is not None:
        _checked_arn("kms", _KEY, key_arn, "secret_key_arn is the ARN of a key, not of an alias")


@dataclass(frozen=True, kw_only=True)
class ExistingRegistry:
    """A schema registry with Confluent's API, such as Confluent's own or Apicurio's at its path `ccompat`. The registry
    of AWS Glue has another API and another wire format. Subjects have no prefix: a registry has one environment.
    """

    # The base URL of the API, https://HOST or https://HOST/PATH.
    url: str
    # A secret with `username` and `password`, with which functions, jobs and tasks sign in by basic authentication.
    # Provisioning registers schemas with it.
    secret_arn: str
    # The ARN of the KMS key that encrypts the secret; None: AWS' own key for secrets.
    secret_key_arn: str | None = None
    # The security group of its address, which gets a rule for each party; None: it is outside the VPC.
    security_group: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https://[a-z0-9.-]+(/[\w./-]*)?", self.url):
            raise ValueError("url is https://HOST or https://HOST/PATH: credentials need TLS, at port 443")
        _checked_secret(self.secret_arn, self.secret_key_arn)
        if self.security_group is not None:
            _checked_id("sg", self.security_group)


@dataclass(frozen=True, kw_only=True)
class ExistingConfig:
    """Resources of the organisation that the deployment uses and does not create. None: it creates its own."""

    # `cidr` is then the network of this VPC.
    vpc: ExistingVpc | None = None
    kafka: ExistingKafka | None = None
    opensearch: ExistingOpenSearch | None = None
    postgres: ExistingPostgres | None = None
    registry: ExistingRegistry | None = None
    # The ARN of the key for stored data. docs/internals/deploying.md has the statements that its policy needs.
    key_arn: str | None = None
    # The name of the bucket, in the same account and region, that takes the access logs of S3 and load balancers.
    access_log_bucket: str | None = None
    # Table of schemas/dynamodb → the name of a restored table that is used in its place (infra/restore.py).
    tables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if kept := sorted(_KEPT_TABLES & self.tables.keys()):
            raise ValueError(f"tables: {kept[0]} keeps its name, by which commands find it; copy the restored items")
        if unknown := sorted(self.tables.keys() - tables()):
            raise ValueError(f"tables: schemas/dynamodb has no {unknown[0]}")
        if self.key_arn is not None:
            _checked_arn("kms", _KEY, self.key_arn, "key_arn is the ARN of a key, not of an alias")
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
        if self.access_log_bucket is not None and not re.fullmatch(
            r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", self.access_log_bucket
        ):
            raise ValueError("access_log_bucket is the name of a bucket")


@dataclass(frozen=True, kw_only=True)
class ExternalServers:
    """External servers without authentication, which the deployment uses and does not create."""

    # The Kafka brokers as host:port, separated by commas.
    kafka: str
    # The base URL of the registry's Confluent-compatible API.
    registry_url: str
    directory_url: str
    # The URL of the database for libpq, without a password.
    database_url: str


# The parts of the system that an environment may leave out; others are left out by their own settings: `receipts`,
# `console` and `event_sources`.
Part = Literal["cdc", "events", "incoming_webhooks", "metrics"]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The configuration of one environment."""

    # The name of the environment, which is part of the names of stacks and resources.
    name: str
    # The id of the AWS account; None: that of the credentials of a deployment.
    account: str | None = None
    region: str = "eu-central-1"
    # The letters of the region's availability zones.
    zones: tuple[str, ...] = ("a", "b", "c")
    cidr: str = "10.64.0.0/16"
    # Whether resources that hold data are protected: neither a deployment nor an operator can delete them.
    protected: bool
    log_days: int = 90
    # The snapshot generation of change data capture (one snapshot of the tables with the changes after it); `g1,g2`
    # while g2 replaces g1.
    generation: str = "g1"
    # The sender of e-mails: an address, or a name and an address.
    sender: str = "notifications@masscomm.example"
    # The address of the route /v1/unsubscribe of the REST API, as mail programs reach it; None: e-mails have no link.
    unsubscribe_url: str | None = "https://masscomm.example/v1/unsubscribe"
    # None: no e-mail to unsubscribe is offered.
    unsubscribe_mailbox: MailboxConfig | None = None
    # (platform of a device, platform name in SNS). An operator creates each platform application with the name
    # PREFIX-PLATFORM, because it holds the credentials of Google or Apple.
    platforms: tuple[tuple[str, str], ...] = (("gcm", "GCM"), ("apns", "APNS"))
    # The address to which alarms and budget notices are sent.
    alarm_email: str = "operations@masscomm.example"
    # The budget in US dollars per month.
    budget_usd: int = 3000
    # The maximum number of event pollers of one event source mapping. None: mappings are in on-demand mode, which costs
    # nothing while idle, and retries a batch whole (masscomm/chain/whole_batches.py).
    pollers: int | None = 4
    # The number of broadcast queues (topics of the bulk lane) with event source mappings; as many tenants broadcast
    # side by side. Each further one has three mappings. Lower it in two deployments (closing_queues).
    broadcast_queues: int = len(BROADCASTS)
    # The number of further queues that still have mappings, and get no more records. If broadcast_queues is lowered by
    # n, set this to n, deploy, and set it to 0 when these queues are empty.
    closing_queues: int = 0
    # Whether one NAT gateway takes the place of the endpoints of AWS services. Each party with a connection to AWS then
    # reaches port 443 of the whole Internet.
    nat: bool = False
    # Whether there are only the alarms that no other one implies (ops/alarms/table.py), and neither a dashboard nor
    # metrics of Container Insights, which are charged like alarms.
    few_alarms: bool = False
    # The provisioned concurrency of each latency-critical function. With 0 there is none, and SnapStart is off as well.
    provisioned: int = 2
    # The share of sends that are traced.
    trace_ratio: float = 0.1
    # Whether the results of sends to up to 1,000 users are readable before the metrics job has counted them, which
    # costs a write for each outcome record.
    send_results: bool = True
    # Whether SNS and SES report the delivery status of messages.
    receipts: bool = True
    # The percentage of delivered pushes that SNS reports; docs/receipts.md has the costs.
    receipts_percent: int = 100
    # The parts to leave out. Without `cdc`, Kafka Connect of the organisation captures the monolith's tables. Without
    # `events`, there are no event types, subscriptions and webhooks. Without `incoming_webhooks`, other systems emit no
    # events by HTTP. Without `metrics`, no Spark job counts and archives: figures of sends remain 0.
    without: tuple[Part, ...] = ()
    # The external servers to use; None: the deployment creates all servers.
    servers: ExternalServers | None = None
    kafka: KafkaConfig = KafkaConfig()
    opensearch: OpenSearchConfig = OpenSearchConfig()
    database: DatabaseConfig = DatabaseConfig()
    monolith: MonolithConfig = MonolithConfig()
    registry: RegistryConfig = RegistryConfig()
    # Kafka Connect with Debezium in a task on Fargate; None: MSK Connect.
    connect_task: ConnectTaskConfig | None = None
    # None: functions look up in OpenSearch.
    directory_state: DirectoryStateConfig | None = None
    spark: SparkConfig = SparkConfig()
    api: ApiConfig = ApiConfig()
    # The web console; None: it is not deployed.
    console: ConsoleConfig | None = None
    providers: ProviderConfig = field(default_factory=ProviderConfig)
    concurrency: ConcurrencyConfig = ConcurrencyConfig()
    platform: PlatformConfig = field(default_factory=PlatformConfig)
    existing: ExistingConfig = ExistingConfig()
    # The file of the organisation's own topics in the MSK cluster that become events, such as
    # examples/event_sources.yaml, relative to the checkout; None: no job reads any.
    event_sources: str | None = None
    # The programs outside masscomm that produce to its topics or consume them.
    producers: tuple[ProducerConfig, ...] = ()
    consumers: tuple[ConsumerConfig, ...] = ()

    def __post_init__(self) -> None:
        """Check values that AWS would otherwise refuse half an hour after the start of the deployment.

        Raises:
            ValueError: A value is out of range, or two values do not fit together. The message has a line for each.
        """
        if problems := [*self._problems(), *self._problems_of_parts(), *self._problems_of_clients()]:
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name) or len(self.prefix) > LONGEST_PREFIX:
            most = LONGEST_PREFIX - len(self.platform.name_prefix) - 1
            yield f"the name {self.name!r} has at most {most} small letters, digits and hyphens"
        if self.account is not None and not re.fullmatch(r"\d{12}", self.account):
            yield f"account {self.account!r} is not 12 digits in quotes"
        if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", self.region):
            yield f"region {self.region!r} is not the name of a region"
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-msk-cluster-brokernodegroupinfo.html
        if len(self.zones) not in (2, 3) or len(set(self.zones)) < len(self.zones):
            yield "zones has two or three different letters"
        if any(not re.fullmatch(r"[a-z]", zone) for zone in self.zones):
            yield "zones has letters such as a, without the region"
        if (vpc := self.existing.vpc) is not None and len(vpc.subnet_ids) != len(self.zones):
            yield "existing.vpc.subnet_ids has a subnet in each of zones"
        yield from self._problems_of_existing()
        for name, count in (
            ("kafka.brokers", self.kafka.brokers),
            ("opensearch.data_nodes", self.opensearch.data_nodes),
        ):
            # A directory of one node is in one zone.
            is_single = (name, count) == ("opensearch.data_nodes", 1)
            if not self.zones or (count % len(self.zones) and not is_single):
                yield f"{name} is {count}, no multiple of the {len(self.zones)} zones"
        if self.nat and self.existing.vpc is not None:
            yield "nat: the routes of an existing VPC are its own"
        if self.opensearch.dedicated_masters not in (0, 3):
            yield "opensearch.dedicated_masters is 0 or 3"
        if not self.kafka.min_insync_replicas < self.kafka.replication_factor <= self.kafka.brokers:
            yield "kafka: min_insync_replicas < replication_factor <= brokers"
        # https://docs.aws.amazon.com/msk/latest/developerguide/aws-access-mult-vpc.html
        if self.kafka.multi_vpc and self.kafka.instance_type == "kafka.t3.small":
            yield "kafka.multi_vpc needs brokers larger than kafka.t3.small"
        if not 1 <= self.broadcast_queues <= len(BROADCASTS):
            yield f"broadcast_queues is from 1 to {len(BROADCASTS)}, the queues of schemas/topics.yaml"
        if not 0 <= self.closing_queues <= len(BROADCASTS) - self.broadcast_queues:
            yield f"closing_queues is from 0 to {len(BROADCASTS)} minus broadcast_queues"
        if self.log_days not in LOG_DAYS:
            yield f"log_days is one of {', '.join(map(str, LOG_DAYS))}"
        if not re.fullmatch(r"[!-?A-~]+@[!-?A-~]+", self.sender_address):
            yield "sender has no address in ASCII; a name with a comma is in quotes"
        # send_handler is the only function that has both a reservation and provisioned concurrency (profiles.py).
        if not 0 <= self.provisioned <= self.concurrency.send_handler:
            yield "provisioned is at most concurrency.send_handler, the function's reservation"
        if not 0 <= self.trace_ratio <= 1 or not 0 <= self.receipts_percent <= 100:
            yield "trace_ratio is from 0 to 1, receipts_percent from 0 to 100"
        # recompute counts the day before: it starts on the day of the first run.
        if self.spark.archive < 1:
            yield "spark.archive is at least 1"
        if not 0 <= self.spark.daily_runs_hour <= 20:
            yield "spark.daily_runs_hour is from 0 to 20"
        if self.protected and self.unsubscribe_url is None and self.unsubscribe_mailbox is None:
            names = ", ".join(optional_categories("email"))
            if names:
                yield f"e-mails of {names} need unsubscribe_url or unsubscribe_mailbox"
        if self.console is not None and self.api.people is None:
            yield "the console needs api.people, the issuer at which people sign in"
        if self.console is not None and self.console.domain == self.api.domain:
            yield "console.domain and api.domain are different hosts"
        try:
            topics = self.own_topics
        except Stop as error:
            yield str(error)
        else:
            if topics is not None and (topics.bootstrap_servers or topics.registry_url):
                yield "event_sources names brokers or a registry, to which the job has no route"

    def _problems_of_existing(self) -> Iterator[str]:
        """Yield the existing resources that are in another place."""
        existing = self.existing
        arns = {"key_arn": existing.key_arn}
        if existing.kafka is not None:
            arns["kafka.cluster_arn"] = existing.kafka.cluster_arn
        if existing.opensearch is not None:
            arns["opensearch.domain_arn"] = existing.opensearch.domain_arn
        if existing.postgres is not None:
            arns["postgres.secret_arn"] = existing.postgres.secret_arn
            arns["postgres.secret_key_arn"] = existing.postgres.secret_key_arn
            if existing.postgres.host.split(".")[2] != self.region:
                yield f"existing.postgres.host is in {self.region}"
        if existing.registry is not None:
            arns["registry.secret_arn"] = existing.registry.secret_arn
            arns["registry.secret_key_arn"] = existing.registry.secret_key_arn
            if not self.nat and existing.vpc is None:
                yield "existing.registry needs existing.vpc or nat: other subnets have no route to it"
        for name, arn in arns.items():
            if arn is None:
                continue
            region, account = arn.split(":")[3:5]
            if region != self.region:
                yield f"existing.{name} is in {self.region}"
            if self.account not in (None, account):
                yield f"existing.{name} is in the account {self.account}"
        for name in ("kafka", "opensearch", "postgres"):
            if getattr(existing, name) is not None and existing.vpc is None:
                yield f"existing.{name} needs existing.vpc, the VPC that it is in"

    def _problems_of_parts(self) -> Iterator[str]:
        """Yield the parts that need another one, which is left out."""
        if (state := self.directory_state) is not None:
            if self.existing.registry is not None:
                yield "directory_state needs the environment's own registry, whose load balancer is in front of it"
            if self.protected and state.answers and state.tasks < 2:
                yield "directory_state.tasks is at least 2 in a protected environment: one answers at a deployment"
        if not self.has("events"):
            if self.has("incoming_webhooks"):
                yield "without: incoming_webhooks are events: leave them out, too"
            if self.event_sources is not None:
                yield "without: event_sources need events"
        if not self.has("metrics") and self.console is not None:
            yield "without: the console shows metrics"
        if not self.has("cdc"):
            if self.connect_task is not None:
                yield "without: connect_task is a part of cdc"
            if self.directory_state is not None:
                yield "without: directory_state is fed by cdc"
            if self.existing.kafka is None:
                yield "without: another Kafka Connect than that of cdc needs existing.kafka, which admits it"

    def _problems_of_clients(self) -> Iterator[str]:
        """Yield the programs without a path of their own."""
        for clients in (self.producers, self.consumers):
            if len({client.name for client in clients}) < len(clients):
                yield "two producers or two consumers have the same name"
        for client in self.clients:
            if not (client.cidr or client.security_group or self.kafka.multi_vpc):
                yield f"{client.name} needs cidr, security_group or kafka.multi_vpc"
            # https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-basics.html
            if client.cidr and IPv4Network(client.cidr).overlaps(IPv4Network(self.cidr)):
                yield f"{client.name}: {client.cidr} overlaps the environment's {self.cidr}"

    def has(self, part: Part) -> bool:
        """Return whether a part of the system is deployed."""
        return part not in self.without

    @property
    def clients(self) -> tuple[ClientConfig, ...]:
        """Return the programs outside masscomm that produce or consume."""
        return (*self.producers, *self.consumers)

    @property
    def own_topics(self) -> EventSources | None:
        """Return the topics in the file `event_sources`; None if there is no file. Raises Stop if it is invalid."""
        return None if self.event_sources is None else read_event_sources(CHECKOUT / self.event_sources)

    @property
    def sender_address(self) -> str:
        """Return the address of the sender, without its name."""
        return parseaddr(self.sender)[1]

    @property
    def prefix(self) -> str:
        """Return the prefix of the names of this environment's resources."""
        return f"{self.platform.name_prefix}-{self.name}"

    def table_name(self, table: str) -> str:
        """Return the name of a table of schemas/dynamodb in this environment."""
        return self.existing.tables.get(table, f"{self.prefix}-{table}")

    @property
    def keeps_data(self) -> bool:
        """Return whether data remains when its stack is deleted."""
        return self.protected or self.platform.retain_data

    @property
    def global_prefix(self) -> str:
        """Return the prefix of names that are unique in an account or in the monolith's database, not in a region."""
        return f"{self.prefix}-{self.region}"

    @property
    def registry_url(self) -> str:
        """Return the base URL of the registry's API for look-ups."""
        existing = self.existing.registry
        return self.registry.url if existing is None else existing.url

    @property
    def registry_secret(self) -> str:
        """Return the name of the secret with the name and the password of the registry's database user."""
        return f"{self.prefix}/registry-user"


LOCAL = "local"


def local(servers: ExternalServers) -> Environment:
    """Return the environment of one machine: LocalStack, with external servers for the services that LocalStack does
    not have.
    """
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


# Parts of values that only an example has: a reserved domain (RFC 2606) and an account that does not exist.
_PLACEHOLDERS = re.compile(r"\.example\b|:000000000000:")


def placeholders(environment: Environment) -> list[str]:
    """Return the settings of an environment that still have the value of an example, such as `api.people.issuer`."""

    def found(value: object, path: str) -> Iterator[str]:
        if dataclasses.is_dataclass(value):
            for each in dataclasses.fields(value):
                yield from found(getattr(value, each.name), f"{path}.{each.name}" if path else each.name)
        elif isinstance(value, tuple):
            for number, each in enumerate(value):
                yield from found(each, f"{path}[{number}]")
        elif isinstance(value, str) and _PLACEHOLDERS.search(value):
            yield path

    return list(found(environment, ""))
