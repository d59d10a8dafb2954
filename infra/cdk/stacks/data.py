"""The stores: Kafka, the directory in OpenSearch, the metrics database, the DynamoDB tables and the archive."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import METRICS_READER
from infra.cdk.resources.audit_copy import audit_copy
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.client_access import ClientPolicies
from infra.cdk.resources.databases import Database
from infra.cdk.resources.directory import Directory
from infra.cdk.resources.findings import explain
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.tables import Tables
from infra.cdk.stacks.network import NetworkStack
from masscomm.kafka.topics import cdc_topics, chain_topics

METRICS = "metrics"


class DataStack(Stack):
    """The stack of the stores.

    Attributes:
        kafka: The MSK cluster with its topics.
        directory: The OpenSearch domain.
        metrics: The metrics database.
        database: The metrics database as functions reach it: its proxy, if there is one.
        tables: The DynamoDB tables, by their names in schemas/dynamodb.
        buckets: The S3 buckets of the archive and of its access log.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack) -> None:
        super().__init__(scope, f"{environment.prefix}-data", env={"region": environment.region})
        shared = {"environment": environment, "key": base.key}
        self.kafka = KafkaCluster(
            self,
            place=base.network.place("kafka"),
            topics=[*chain_topics(), *cdc_topics(environment.generation)],
            **shared,
        )
        ClientPolicies(self, environment=environment, kafka=self.kafka)
        self.directory = Directory(
            self,
            place=base.network.place("directory"),
            administrator=base.provisioner,
            **shared,
        )
        explain(
            base.provisioner,
            "it creates indices and roles: all paths of this one domain",
            f"IAM5[Resource::{self.directory.as_reported('*')}]",
        )
        self.metrics = Database(
            self,
            METRICS,
            place=base.network.place("database"),
            instance_type=environment.database.instance_type,
            name=METRICS,
            existing=environment.existing.postgres,
            **shared,
        )
        self.database = (
            self.metrics.add_proxy(place=base.network.place("proxy"), users=[METRICS_READER], **shared)
            if environment.database.proxy
            else self.metrics.writer
        )
        self.tables = Tables(self, **shared).tables
        self.buckets = Buckets(self, **shared)
        self.audit_copy = audit_copy(self, environment, base.key, self.tables, self.buckets)
