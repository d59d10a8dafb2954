"""Everything that holds data: Kafka, the directory, the metrics, the tables, the archive."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import METRICS_READER
from infra.cdk.resources.buckets import Buckets
from infra.cdk.resources.databases import Database
from infra.cdk.resources.directory import Directory
from infra.cdk.resources.findings import explain
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.tables import Tables
from infra.cdk.stacks.network import NetworkStack
from masscomm.kafka.topics import cdc_topics, chain_topics

METRICS = "metrics"


class DataStack(Stack):
    """kafka, directory, metrics, tables, buckets; database: metrics as functions reach it, by its proxy; administrator:
    who provisions what is inside them."""

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack) -> None:
        super().__init__(scope, f"{environment.prefix}-data", env={"region": environment.region})
        network = base.network
        network_properties = {"environment": environment, "vpc": network.vpc, "subnets": network.subnets}
        # Named, so that the directory's policy does not wait for the function that takes the role.
        self.administrator = iam.Role(
            self,
            "administrator",
            role_name=f"{environment.prefix}-provisioner",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="creates indices, roles, tables and schemas",
        )
        self.kafka = KafkaCluster(
            self,
            key=base.key,
            group=network.groups["kafka"],
            topics=[*chain_topics(), *cdc_topics(environment.generation)],
            **network_properties,
        )
        self.directory = Directory(
            self,
            key=base.key,
            group=network.groups["directory"],
            administrator=self.administrator,
            **network_properties,
        )
        explain(
            self.administrator,
            "it makes indices and the domain's roles: every path of this one domain",
            f"IAM5[Resource::arn:aws:es:{environment.region}:<AWS::AccountId>:domain/{self.directory.name}/*]",
        )
        self.metrics = Database(
            self,
            METRICS,
            key=base.key,
            group=network.groups["database"],
            instance_type=environment.database.instance_type,
            name=METRICS,
            **network_properties,
        )
        self.database = self.metrics.add_proxy(
            key=base.key, group=network.groups["proxy"], users=[METRICS_READER], **network_properties
        )
        self.tables = Tables(self, environment=environment, key=base.key).tables
        self.buckets = Buckets(self, environment=environment, key=base.key)
