"""The MSK cluster and its topics, and what a role may do with them."""

import base64
import json
from collections.abc import Collection, Sequence
from typing import Any

from aws_cdk import Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_msk as msk
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.call import call
from infra.cdk.resources.logs import log_group, removal
from masscomm.kafka.topics import Topic

_Mapping = lambda_.CfnEventSourceMapping
_PROPERTIES = """\
auto.create.topics.enable=false
default.replication.factor={replication}
min.insync.replicas={insync}
# dead-letter takes what any other topic took, with its headers
replica.fetch.max.bytes=6291456
unclean.leader.election.enable=false
"""


class KafkaCluster(Construct):
    """A provisioned cluster that takes IAM and TLS and nothing else, with every topic of schemas/topics.yaml.

    name, arn: the cluster's; bootstrap_servers: its IAM listeners.
    """

    authentication = "aws_msk_iam"

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        group: ec2.ISecurityGroup,
        topics: Sequence[Topic],
    ) -> None:
        super().__init__(scope, "kafka")
        config = environment.kafka
        self.name = environment.prefix
        configuration = msk.CfnConfiguration(
            self,
            "configuration",
            name=self.name,
            kafka_versions_list=[config.version],
            server_properties=_PROPERTIES.format(
                replication=config.replication_factor, insync=config.min_insync_replicas
            ),
        )
        group_of_logs = log_group(self, "log", environment=environment, key=key)
        self.cluster = msk.CfnCluster(
            self,
            "cluster",
            cluster_name=self.name,
            kafka_version=config.version,
            number_of_broker_nodes=config.brokers,
            broker_node_group_info=msk.CfnCluster.BrokerNodeGroupInfoProperty(
                instance_type=config.instance_type,
                client_subnets=vpc.select_subnets(subnet_type=subnets.subnet_type).subnet_ids,
                security_groups=[group.security_group_id],
                storage_info=msk.CfnCluster.StorageInfoProperty(
                    ebs_storage_info=msk.CfnCluster.EBSStorageInfoProperty(volume_size=config.volume_gb)
                ),
            ),
            client_authentication=msk.CfnCluster.ClientAuthenticationProperty(
                sasl=msk.CfnCluster.SaslProperty(iam=msk.CfnCluster.IamProperty(enabled=True)),
                unauthenticated=msk.CfnCluster.UnauthenticatedProperty(enabled=False),
            ),
            configuration_info=msk.CfnCluster.ConfigurationInfoProperty(
                arn=configuration.attr_arn, revision=configuration.attr_latest_revision_revision
            ),
            encryption_info=msk.CfnCluster.EncryptionInfoProperty(
                encryption_at_rest=msk.CfnCluster.EncryptionAtRestProperty(data_volume_kms_key_id=key.key_arn),
                encryption_in_transit=msk.CfnCluster.EncryptionInTransitProperty(client_broker="TLS", in_cluster=True),
            ),
            # Lag a consumer group and topic is told at every level; bytes a topic at this one.
            enhanced_monitoring="PER_TOPIC_PER_BROKER",
            logging_info=msk.CfnCluster.LoggingInfoProperty(
                broker_logs=msk.CfnCluster.BrokerLogsProperty(
                    cloud_watch_logs=msk.CfnCluster.CloudWatchLogsProperty(
                        enabled=True, log_group=group_of_logs.log_group_name
                    )
                )
            ),
        )
        self.cluster.apply_removal_policy(removal(environment))
        self.arn = self.cluster.attr_arn
        for topic in topics:
            self._topic(topic, environment)
        self.bootstrap_servers = self._bootstrap_servers(environment, key)

    def _topic(self, topic: Topic, environment: Environment) -> None:
        config = environment.kafka
        msk.CfnTopic(
            self,
            f"topic {topic.name}",
            cluster_arn=self.arn,
            topic_name=topic.name,
            partition_count=partitions_of(topic, environment),
            replication_factor=config.replication_factor,
            configs=base64.b64encode(json.dumps(topic.config, sort_keys=True).encode()).decode(),
            # A topic that is taken out of the file must be deleted by hand: records are not a deployment's to delete.
        ).apply_removal_policy(RemovalPolicy.RETAIN if environment.protected else RemovalPolicy.DESTROY)

    def _bootstrap_servers(self, environment: Environment, key: kms.IKey) -> str:
        """CloudFormation does not tell them: they are asked for when the cluster is there."""
        what = custom.AwsSdkCall(
            service="Kafka",
            action="getBootstrapBrokers",
            parameters={"ClusterArn": self.arn},
            physical_resource_id=custom.PhysicalResourceId.of(self.name),
            output_paths=[_SASL_IAM],
        )
        may = iam.PolicyStatement(actions=["kafka:GetBootstrapBrokers"], resources=[self.arn])
        asked = call(self, "bootstrap-servers", environment=environment, key=key, what=what, statements=[may])
        return asked.get_response_field(_SASL_IAM)

    def event_source(self, group: str) -> dict[str, Any]:
        """How a mapping names the source. group: its consumer group."""
        return {
            "event_source_arn": self.arn,
            "amazon_managed_kafka_event_source_config": _Mapping.AmazonManagedKafkaEventSourceConfigProperty(
                consumer_group_id=group
            ),
        }

    # --- what a role may do ---

    def poller_statements(self) -> list[iam.PolicyStatement]:
        """What a function's role needs for Lambda to find the brokers."""
        return [
            iam.PolicyStatement(actions=["kafka-cluster:DescribeClusterDynamicConfiguration"], resources=[self.arn]),
            iam.PolicyStatement(
                actions=["kafka:DescribeCluster", "kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers"],
                resources=[self.arn],
            ),
        ]

    def statements(
        self,
        *,
        reads: Collection[str] = (),
        writes: Collection[str] = (),
        describes: Collection[str] = (),
        groups: Collection[str] = (),
        asks: Collection[str] = (),
        creates: Collection[str] = (),
    ) -> list[iam.PolicyStatement]:
        """The data plane's permissions.

        reads, writes: topics; describes: topics that are only asked where they end; groups: consumer groups used; asks:
        groups that are only asked how far they are; creates: topics that are made where they do not exist. Nothing
        where nothing is wanted.
        """
        if not any((reads, writes, describes, groups, asks)):
            return []
        connect = ["Connect", "DescribeCluster"]
        wanted = [
            ([*connect, "WriteDataIdempotently"] if writes else connect, [self.arn]),
            (["DescribeTopic", "ReadData"], [self._named("topic", topic) for topic in reads]),
            (["DescribeTopic", "WriteData"], [self._named("topic", topic) for topic in writes]),
            (["DescribeTopic"], [self._named("topic", topic) for topic in describes]),
            (["AlterGroup", "DescribeGroup"], [self._named("group", group) for group in groups]),
            (["CreateTopic"], [self._named("topic", topic) for topic in creates]),
            (["DescribeGroup"], [self._named("group", group) for group in asks]),
        ]
        return [
            iam.PolicyStatement(actions=[f"kafka-cluster:{action}" for action in actions], resources=resources)
            for actions, resources in wanted
            if resources
        ]

    def _named(self, kind: str, name: str) -> str:
        """arn:…:topic/CLUSTER/UUID/NAME of arn:…:cluster/CLUSTER/UUID."""
        before, after = _halves(self.arn)
        return f"{before}:{kind}/{after}/{name}"

    def as_reported(self, kind: str, name: str) -> str:
        """That ARN as a finding of AwsSolutions writes it, where it stands in another stack."""
        stack = Stack.of(self)
        before, after = (
            json.dumps(stack.resolve(half), separators=(",", ":")) for half in _halves(stack.export_value(self.arn))
        )
        return f"{before}:{kind}/{after}/{name}"


def _halves(arn: str) -> list[str]:
    return [Fn.select(part, Fn.split(":cluster/", arn)) for part in (0, 1)]


_SASL_IAM = "BootstrapBrokerStringSaslIam"


def partitions_of(topic: Topic, environment: Environment) -> int:
    """How many partitions a topic of schemas/topics.yaml has in the environment."""
    # What has one partition here has it for its order, or because it is little.
    return topic.partitions * (environment.kafka.partitions_factor if topic.partitions > 1 else 1)
