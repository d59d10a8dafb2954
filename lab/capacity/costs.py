"""Computes the costs of a million notifications, and of an environment without load.

These costs are not included: data transfer out of AWS and by a NAT gateway, the monolith's side of change data capture,
requests of KMS and of Secrets Manager, X-Ray, API Gateway (one request names thousands of recipients), backups beyond
the size of the volumes, support.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from functions.catalogue import FunctionEntry
from infra.cdk.config import Environment
from infra.cdk.parts import deployed
from infra.cdk.profiles import PROFILES, Warmth
from lab.capacity.alarms import alarm_metrics
from lab.capacity.limits import environments_used, ledger_units_s
from lab.capacity.plan import INPUTS, STEPS, Plan, batch_records, functions, invocation_s, recipients_a_record
from lab.capacity.prices import HOURS_A_MONTH, price
from lab.capacity.quotas import quota
from lab.capacity.service_times import ServiceTimes
from lab.capacity.workload import Workload, sizes
from masscomm.domain.lanes import Lane
from masscomm.domain.time_limits import LEDGER_KEPT_S
from masscomm.kafka import topics
from masscomm.observability.metric_names import DAILY_RUNS

MILLION = 1_000_000
GB = 1e9
DAYS_A_MONTH = HOURS_A_MONTH / 24
# The bytes that an invocation logs: Lambda's own lines (start, end, report) in JSON, and one line of the function.
LOG_BYTES_AN_INVOCATION = 1_500
# The bytes of the line with which SNS reports a push (docs/receipts.md), and the assumed lines of an event of
# CloudWatch Logs: AWS documents no number. EventBridge passes on each event of SES alone, and charges none of AWS'.
PUSH_LOG_BYTES, LOG_LINES_AN_EVENT = 600, 10
# The number of interface endpoints in infra/cdk/resources/network.py; a test compares it with the synthesised template.
INTERFACE_ENDPOINTS = 13
# The number of MSK Connect units in infra/cdk/resources/connector.py.
CONNECT_UNITS = 1
# The keys, and the secrets without those that RDS makes for its administrators; one secret is the monolith's, made by
# hand.
KEYS, SECRETS = 2, 4
# The web ACLs and their rules, those of the door for incoming webhooks, and the further rules with a console.
FIREWALLS, FIREWALL_RULES, CONSOLE_RULES = 2, 5, 2
DOOR_FIREWALLS = DOOR_RULES = 1
# The metrics of masscomm itself that functions and jobs emit while nothing is sent: ages, due records, daily runs.
OWN_METRICS = 12
# The metrics of MSK for each topic and broker.
# https://docs.aws.amazon.com/msk/latest/developerguide/metrics-details.html
TOPIC_METRICS = 5
# The metrics of Container Insights for a cluster with a service.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-metrics-ECS.html
INSIGHTS_METRICS = 26
# The minutes that workers of a counting run and of a daily run are charged. Assumed: a run has not been tried on EMR.
RUN_MINUTES, DAILY_RUN_MINUTES = 2, 3
# Resource type → the line of a_month that has its charge while nothing is sent.
CHARGED = {
    "AWS::MSK::Cluster": "Kafka (MSK)",
    "AWS::KafkaConnect::Connector": "change data capture (Kafka Connect)",
    "AWS::ECS::Service": "schema registry (Fargate, load balancer)",
    "AWS::ElasticLoadBalancingV2::LoadBalancer": "schema registry (Fargate, load balancer)",
    "AWS::Route53::HostedZone": "schema registry (Fargate, load balancer)",
    "AWS::OpenSearchService::Domain": "directory (OpenSearch)",
    "AWS::RDS::DBInstance": "databases (RDS, proxy)",
    "AWS::RDS::DBProxy": "databases (RDS, proxy)",
    "AWS::EMRServerless::Application": "metrics (EMR Serverless)",
    "AWS::Lambda::EventSourceMapping": "event pollers",
    "AWS::Lambda::Alias": "functions kept warm",
    "AWS::EC2::VPCEndpoint": "ways to AWS (endpoints or NAT)",
    "AWS::EC2::NatGateway": "ways to AWS (endpoints or NAT)",
    "AWS::EC2::EIP": "ways to AWS (endpoints or NAT)",
    "AWS::KMS::Key": "keys and secrets",
    "AWS::SecretsManager::Secret": "keys and secrets",
    "AWS::CloudWatch::Alarm": "alarms, dashboard",
    "AWS::CloudWatch::Dashboard": "alarms, dashboard",
    "AWS::WAFv2::WebACL": "firewall (WAF)",
}
# Services whose resources cost nothing, or cents, until something is sent, stored or requested.
IDLE_FREE = {
    *("ApiGateway", "Budgets", "CertificateManager", "CloudFront", "DynamoDB", "ECR", "Events", "Glue", "IAM", "Logs"),
    *("S3", "SES", "SNS", "SQS", "SSM"),
}
# Types of services in CHARGED that have no charge of their own.
FREE = {
    *("AWS::EC2::FlowLog", "AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable", "AWS::EC2::Subnet"),
    *("AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::VPC"),
    *("AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPCGatewayAttachment", "AWS::ECS::Cluster"),
    *("AWS::ECS::TaskDefinition", "AWS::ElasticLoadBalancingV2::Listener", "AWS::KMS::Alias", "AWS::MSK::Topic"),
    *(
        "AWS::ElasticLoadBalancingV2::ListenerRule",
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        "AWS::MSK::Configuration",
    ),
    *("AWS::KafkaConnect::CustomPlugin", "AWS::KafkaConnect::WorkerConfiguration", "AWS::Lambda::EventInvokeConfig"),
    *("AWS::Lambda::Function", "AWS::Lambda::Permission", "AWS::Lambda::Version", "AWS::Lambda::LayerVersion"),
    *("AWS::MSK::ClusterPolicy", "AWS::RDS::DBParameterGroup", "AWS::RDS::DBProxyTargetGroup"),
    *("AWS::RDS::DBSubnetGroup", "AWS::Route53::RecordSet", "AWS::WAFv2::WebACLAssociation"),
}
DATABASE_VCPUS = {"t4g.micro": 2, "t4g.small": 2, "t4g.medium": 2, "r7g.large": 2, "r7g.xlarge": 4}
# The share of bytes that cross zones: of three zones, two are not the zone of the partition's leader.
OTHER_ZONE = 2 / 3


@dataclass(frozen=True, kw_only=True)
class Cost:
    """One line of the bill."""

    component: str  # The resource that is charged.
    dollars: float  # The price for a million notifications, or for a month, in US dollars.


def for_a_million(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> list[Cost]:
    """Return the costs that depend on use, with every batch full."""
    invocations = {step: MILLION / (batch_records(step) * recipients_a_record(step, workload)) for step in STEPS}
    gb_s = {
        step: invocations[step]
        * invocation_s(step, batch_records(step), workload, plan, times, provider_s)
        * plan.memory_mb[step]
        / 1024
        for step in STEPS
    }
    allowed = MILLION * workload.allowed
    weights = sizes(workload)
    share = MILLION / workload.notifications_s
    bulk = Workload(**{**workload.__dict__, "critical_s": 0.0})
    decisions = MILLION / workload.chunk * weights.check_units + MILLION / recipients_a_record("builder", workload) * (
        weights.build_units
    )
    written = share * ledger_units_s(bulk, times) + decisions
    kept_gb = allowed / times.slice_size * weights.ledger_bytes / GB
    through_gb = MILLION * weights.bytes_a_notification() / GB
    reported = receipts_of(workload, plan)
    # The next function reads each record. The Spark job reads it too, except on the topic `build`.
    reads = 2 - weights.bytes_a_notification(INPUTS["builder"]) / weights.bytes_a_notification()
    return [
        Cost(component="push (SNS)", dollars=allowed * (1 - workload.email) * workload.devices * price("sns_push")),
        Cost(component="e-mail (SES)", dollars=allowed * workload.email * price("ses_email")),
        *(
            Cost(
                component=f"Lambda, {step}",
                dollars=gb_s[step] * price("lambda_gb_s") + invocations[step] * price("lambda_request"),
            )
            for step in STEPS
        ),
        Cost(component="Lambda, receipts", dollars=_receipts_lambda(workload, plan, times)),
        Cost(component="push reports (logs)", dollars=reported.pushes * PUSH_LOG_BYTES / GB * price("logs_gb")),
        Cost(
            component="DynamoDB",
            dollars=written * price("dynamodb_write_unit")
            + kept_gb * LEDGER_KEPT_S / 86_400 / DAYS_A_MONTH * price("dynamodb_gb_month"),
        ),
        Cost(
            component="Kafka, between zones",
            dollars=(through_gb * (1 + reads) + 2 * reported.number * PUSH_LOG_BYTES / GB)
            * OTHER_ZONE
            * price("between_zones_gb"),
        ),
        Cost(
            component="logs",
            dollars=sum(invocations.values()) * LOG_BYTES_AN_INVOCATION / GB * price("logs_gb"),
        ),
        Cost(component="archive (S3), a year", dollars=through_gb * 12 * price("s3_gb_month")),
    ]


@dataclass(frozen=True, kw_only=True)
class Reported:
    """The receipts of a million notifications: reports of the providers after they have accepted a message."""

    pushes: float
    emails: float

    @property
    def number(self) -> float:
        return self.pushes + self.emails


def receipts_of(workload: Workload, plan: Plan) -> Reported:
    """Return the receipts of a million notifications; an environment may have none, or those of a share of pushes."""
    environment = plan.environment
    allowed = MILLION * workload.allowed * environment.receipts
    pushes = allowed * (1 - workload.email) * workload.devices * environment.receipts_percent / 100
    return Reported(pushes=pushes, emails=allowed * workload.email)


def _receipts_lambda(workload: Workload, plan: Plan, times: ServiceTimes) -> float:
    """Return the cost of the function that produces receipts to Kafka and processes them, in full batches."""
    reported, function = receipts_of(workload, plan), functions()["receipts"]
    events = reported.pushes / LOG_LINES_AN_EVENT + reported.emails
    outcomes = MILLION / recipients_a_record("delivery", workload)
    batches = (reported.number + outcomes) / batch_records("receipts", topic=topics.RECEIPT)
    ingest, process = times.lines["receipts_ingest"], times.lines["receipts"]
    seconds = events * ingest.invocation.at(function.memory_mb) + batches * process.invocation.at(function.memory_mb)
    for line in (ingest, process):
        seconds += reported.number * line.recipient.at(function.memory_mb)
    return seconds * function.memory_mb / 1024 * price("lambda_gb_s") + (events + batches) * price("lambda_request")


def a_month(plan: Plan, price: Callable[[str], float] = price) -> list[Cost]:
    """Return the costs for a month that are independent of the load.

    Args:
        plan: The sizes of the environment.
        price: Returns a price by its name.
    """
    environment = plan.environment
    kafka, search, database = environment.kafka, environment.opensearch, environment.database
    registry, connect, spark = environment.registry, environment.connect_task, environment.spark
    state = environment.directory_state
    existing = environment.existing
    # The instances that the deployment creates.
    databases = [] if existing.postgres is not None else [database.instance_type]
    if database.registry_instance_type is not None and existing.registry is None:
        databases.append(database.registry_instance_type)
    instances = 2 if database.multi_az else 1

    def fargate(tasks: int, cpu: int, memory_mb: int) -> float:
        each = cpu / 1024 * price("fargate_vcpu_hour") + memory_mb / 1024 * price("fargate_gb_hour")
        return tasks * each

    workers = 1 + plan.executors
    spark_hour = workers * (spark.worker_cpu * price("emr_vcpu_hour") + spark.worker_memory_gb * price("emr_gb_hour"))
    counting_hours = float(HOURS_A_MONTH)
    if spark.every_minutes is not None:
        counting_hours = HOURS_A_MONTH * RUN_MINUTES / spark.every_minutes
    daily_hours = DAYS_A_MONTH * len(DAILY_RUNS) * DAILY_RUN_MINUTES / 60
    rules = FIREWALL_RULES + (environment.console is not None) * CONSOLE_RULES
    without_door = not environment.has("incoming_webhooks")
    custom_metrics = OWN_METRICS
    if kafka.topic_metrics and existing.kafka is None:
        custom_metrics += plan.brokers * TOPIC_METRICS * _topics_of(environment)
    if not environment.few_alarms:
        custom_metrics += INSIGHTS_METRICS
    costs = [
        _hourly(
            "Kafka (MSK)",
            plan.brokers * price(f"msk.{kafka.instance_type}"),
            plan.brokers * kafka.volume_gb * price("msk_gb_month"),
        ),
        _hourly(
            "change data capture (Kafka Connect)",
            fargate(1, connect.cpu, connect.memory_mb) if connect else CONNECT_UNITS * price("msk_connect_hour"),
        ),
        _hourly(
            "directory (OpenSearch)",
            plan.data_nodes * price(f"opensearch.{search.instance_type}")
            + search.dedicated_masters * price(f"opensearch.{search.master_type}"),
            plan.data_nodes * search.volume_gb * price("opensearch_gb_month"),
        ),
        _hourly(
            "databases (RDS, proxy)",
            instances * sum(price(f"rds.{kind}") for kind in databases)
            + database.proxy * DATABASE_VCPUS[database.instance_type] * price("rds_proxy_vcpu_hour"),
            instances * database.volume_gb * len(databases) * price("rds_gb_month"),
        ),
        Cost(component="metrics (EMR Serverless)", dollars=spark_hour * (counting_hours + daily_hours)),
        _hourly(
            "schema registry (Fargate, load balancer)",
            fargate(registry.tasks, registry.cpu, registry.memory_mb) + price("balancer_hour"),
            price("zone_month"),
        ),
        _hourly(
            "directory_state (Fargate)", 0.0 if state is None else fargate(state.tasks, state.cpu, state.memory_mb)
        ),
        _hourly(
            "event pollers",
            0.0 if environment.pollers is None else poller_units(environment) * price("lambda_event_poller_unit_hour"),
        ),
        _hourly(
            "functions kept warm",
            3600
            * (
                environment.provisioned * _memory_gb(environment, Warmth.PROVISIONED) * price("lambda_provisioned_gb_s")
                + bool(environment.provisioned)
                * _memory_gb(environment, Warmth.SNAPSTART)
                * price("lambda_snapshot_gb_s")
            ),
        ),
        _hourly(
            "ways to AWS (endpoints or NAT)",
            price("nat_hour") + price("ipv4_hour")
            if environment.nat
            else INTERFACE_ENDPOINTS * len(environment.zones) * price("endpoint_hour"),
        ),
        Cost(
            component="keys and secrets",
            dollars=(KEYS - (existing.key_arn is not None)) * price("key_month")
            + (SECRETS - (existing.registry is not None) + (state is not None) + len(databases))
            * price("secret_month"),
        ),
        Cost(
            component="alarms, dashboard",
            dollars=alarm_metrics(environment) * price("alarm_month")
            + (not environment.few_alarms) * price("dashboard_month"),
        ),
        Cost(component="custom metrics", dollars=custom_metrics * price("metric_month")),
        Cost(
            component="firewall (WAF)",
            dollars=environment.api.firewall
            * (
                (FIREWALLS - without_door * DOOR_FIREWALLS) * price("firewall_month")
                + (rules - without_door * DOOR_RULES) * price("firewall_rule_month")
            ),
        ),
    ]
    # The lines of what the organisation has already, or the environment leaves out.
    absent = {
        "Kafka (MSK)": existing.kafka is not None,
        "directory (OpenSearch)": existing.opensearch is not None,
        "schema registry (Fargate, load balancer)": existing.registry is not None,
        "ways to AWS (endpoints or NAT)": existing.vpc is not None,
        "change data capture (Kafka Connect)": not environment.has("cdc"),
        "directory_state (Fargate)": state is None,
        "metrics (EMR Serverless)": not environment.has("metrics"),
    }
    return [cost for cost in costs if not absent.get(cost.component)]


def _topics_of(environment: Environment) -> int:
    """Return the number of topics of an environment."""
    return len(topics.chain_topics()) + len(topics.cdc_topics(environment.generation))


def poller_units(environment: Environment) -> int:
    """Return the event poller units of idle mappings: each has one poller, and the mappings of a lane (kind of send)
    are in one group.
    """
    return sum(ceil(mappings / quota("pollers_a_unit")) for mappings in _mappings(environment).values())


def busy_poller_units(workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float) -> int:
    """Return the event poller units of the bulk lane's group at this rate: enough for its invocations, and for its
    bytes.
    """
    records = sizes(workload).records
    pollers, mb_s = float(_mappings(plan.environment)[Lane.BULK]), 0.0
    for step in STEPS:
        mappings = _topics(functions()[step])
        used = environments_used(step, workload, plan, times, provider_s) / quota("invocations_a_poller")
        pollers += max(0.0, used - mappings)
        mb_s += records[INPUTS[step]] * workload.notifications_s / recipients_a_record(step, workload) / 1e6
    return max(ceil(pollers / quota("pollers_a_unit")), ceil(mb_s / quota("unit_mb_s")))


def _mappings(environment: Environment) -> Mapping[Lane, int]:
    """Return the number of event source mappings of each lane: one for each topic of a function."""
    found: Counter[Lane] = Counter()
    for entry in deployed(environment):
        found[entry.lane] += _topics(entry)
    return found


def _topics(entry: FunctionEntry) -> int:
    return len(entry.event_source.topics) if entry.event_source else 0


def _memory_gb(environment: Environment, warmth: Warmth) -> float:
    """Return the memory in GB of one environment of each function that has this protection against cold starts."""
    found = 0.0
    for entry in deployed(environment):
        profile = PROFILES[entry.package]
        if warmth is (profile.critical if entry.lane is Lane.CRITICAL else profile.warmth):
            found += entry.memory_mb / 1024
    return found


def _hourly(component: str, an_hour: float, a_month: float = 0.0) -> Cost:
    return Cost(component=component, dollars=an_hour * HOURS_A_MONTH + a_month)


def total(costs: Sequence[Cost]) -> float:
    return sum(cost.dollars for cost in costs)


def by_the_hour(
    workload: Workload, plan: Plan, times: ServiceTimes, provider_s: float, *, hours_a_day: float
) -> list[Cost]:
    """Return the environment's share of the cost of a million notifications, if the rate lasts for `hours_a_day`
    hours.
    """
    millions = workload.notifications_s * 3600 * hours_a_day * DAYS_A_MONTH / MILLION
    idle = ceil(_mappings(plan.environment)[Lane.BULK] / quota("pollers_a_unit"))
    units = busy_poller_units(workload, plan, times, provider_s) - idle
    busy = Cost(
        component="event pollers, more while it is busy",
        dollars=units * price("lambda_event_poller_unit_hour") * hours_a_day * DAYS_A_MONTH,
    )
    return [replace(cost, dollars=cost.dollars / millions) for cost in (*a_month(plan), busy)]
