"""Creates the MSK cluster, its topics, and IAM permissions for them."""

import base64
import json
from collections.abc import Collection, Sequence
from itertools import batched
from typing import Any

from aws_cdk import Fn, RemovalPolicy, Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_msk as msk
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.cdk.concurrency import partitions_of
from infra.cdk.config import Environment
from infra.cdk.resources.call import call
from infra.cdk.resources.logs import log_group, removal
from infra.cdk.resources.network import Place
from masscomm.kafka.topics import Topic, cdc_topics

_Mapping = lambda_.CfnEventSourceMapping
_PROPERTIES = """\
auto.create.topics.enable=false
default.replication.factor={replication}
min.insync.replicas={insync}
# dead-letter takes what any other topic took, with its headers
replica.fetch.max.bytes=6291456
unclean.leader.election.enable=false
"""


_PRIVATE_CONNECTIVITY = msk.CfnCluster.ConnectivityInfoProperty(
    vpc_connectivity=msk.CfnCluster.VpcConnectivityProperty(
        client_authentication=msk.CfnCluster.VpcConnectivityClientAuthenticationProperty(
            sasl=msk.CfnCluster.VpcConnectivitySaslProperty(iam=msk.CfnCluster.VpcConnectivityIamProperty(enabled=True))
        )
    )
)


class KafkaCluster(Construct):
    """A provisioned cluster, own or existing, with the given topics. Its clients authenticate by IAM, over TLS.

    Attributes:
        name, arn: The name and the ARN of the cluster.
        bootstrap_servers: The addresses of the listeners with IAM authentication.
    """

    authentication = "aws_msk_iam"

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        topics: Sequence[Topic],
    ) -> None:
        super().__init__(scope, "kafka")
        existing = environment.existing.kafka
        self.name = environment.prefix if existing is None else existing.name
        self.arn = self._cluster(environment, key, place) if existing is None else existing.cluster_arn
        for topic in topics:
            self._topic(topic, environment)
        self.bootstrap_servers = self._bootstrap_servers(environment, key)

    def _cluster(self, environment: Environment, key: kms.IKey, place: Place) -> str:
        """Create the cluster, and return its ARN."""
        config = environment.kafka
        configuration = msk.CfnConfiguration(
            self,
            "configuration",
            # Without a list of Kafka's versions: CloudFormation would replace the configuration for another version,
            # and MSK changes only one attribute of a cluster at a time.
            name=f"{self.name}-brokers",
            server_properties=_PROPERTIES.format(
                replication=config.replication_factor, insync=config.min_insync_replicas
            ),
        )
        group_of_logs = log_group(self, "log", environment=environment, key=key)
        cluster = msk.CfnCluster(
            self,
            "cluster",
            cluster_name=self.name,
            kafka_version=config.version,
            number_of_broker_nodes=config.brokers,
            broker_node_group_info=msk.CfnCluster.BrokerNodeGroupInfoProperty(
                instance_type=config.instance_type,
                client_subnets=place.subnet_ids,
                security_groups=[place.group.security_group_id],
                storage_info=msk.CfnCluster.StorageInfoProperty(
                    ebs_storage_info=msk.CfnCluster.EBSStorageInfoProperty(volume_size=config.volume_gb)
                ),
                connectivity_info=_PRIVATE_CONNECTIVITY if config.multi_vpc else None,
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
            # Every monitoring level includes the lag by consumer group and topic; the higher one adds bytes by topic.
            enhanced_monitoring="PER_TOPIC_PER_BROKER" if config.topic_metrics else "DEFAULT",
            logging_info=msk.CfnCluster.LoggingInfoProperty(
                broker_logs=msk.CfnCluster.BrokerLogsProperty(
                    cloud_watch_logs=msk.CfnCluster.CloudWatchLogsProperty(
                        enabled=True, log_group=group_of_logs.log_group_name
                    )
                )
            ),
        )
        cluster.apply_removal_policy(removal(environment))
        return cluster.attr_arn

    def _topic(self, topic: Topic, environment: Environment) -> None:
        config = environment.kafka
        is_changelog = topic.compaction is not None and topic in cdc_topics(environment.generation)
        msk.CfnTopic(
            self,
            f"topic {topic.name}",
            cluster_arn=self.arn,
            topic_name=topic.name,
            partition_count=partitions_of(topic, environment),
            replication_factor=config.replication_factor,
            configs=base64.b64encode(json.dumps(topic.config, sort_keys=True).encode()).decode(),
            # A deployment deletes no records: if a topic is removed from the file, an operator deletes it by hand. But
            # the changelogs of a generation that is given up would keep personal data for ever.
        ).apply_removal_policy(RemovalPolicy.DESTROY if is_changelog else removal(environment))

    def _bootstrap_servers(self, environment: Environment, key: kms.IKey) -> str:
        """Return the bootstrap brokers with IAM authentication. CloudFormation does not return them, so a custom
        resource calls MSK.
        """
        sdk_call = custom.AwsSdkCall(
            service="Kafka",
            action="getBootstrapBrokers",
            parameters={"ClusterArn": self.arn},
            physical_resource_id=custom.PhysicalResourceId.of(self.name),
            output_paths=[_SASL_IAM],
        )
        may = iam.PolicyStatement(actions=["kafka:GetBootstrapBrokers"], resources=[self.arn])
        asked = call(self, "bootstrap-servers", environment=environment, key=key, sdk_call=sdk_call, statements=[may])
        return asked.get_response_field(_SASL_IAM)

    def event_source(self, group: str) -> dict[str, Any]:
        """Return the properties of an event source mapping that name its source and its consumer group."""
        return {
            "event_source_arn": self.arn,
            "amazon_managed_kafka_event_source_config": _Mapping.AmazonManagedKafkaEventSourceConfigProperty(
                consumer_group_id=group
            ),
        }

    def poller_statements(self) -> list[iam.PolicyStatement]:
        """Return the policy statements that Lambda needs in a function's role to find the brokers."""
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
        transacts: Collection[str] = (),
    ) -> list[iam.PolicyStatement]:
        """Return policy statements for the Kafka operations of a role.

        Args:
            reads: Topics to consume.
            writes: Topics to produce to.
            describes: Topics whose end offsets are read.
            groups: Consumer groups to join, and for which to commit offsets.
            asks: Consumer groups whose committed offsets are read.
            creates: Topics to create if they do not exist.
            transacts: Transactional ids of producers.

        Returns:
            The statements; none without topics and groups.
        """
        if not any((reads, writes, describes, groups, asks)):
            return []
        connect = ["Connect", "DescribeCluster"]
        wanted = [
            ([*connect, "WriteDataIdempotently"] if writes else connect, [self.arn]),
            (["DescribeTopic", "ReadData"], [self.named("topic", topic) for topic in reads]),
            (["DescribeTopic", "WriteData"], [self.named("topic", topic) for topic in writes]),
            (["DescribeTopic"], [self.named("topic", topic) for topic in describes]),
            (["AlterGroup", "DescribeGroup"], [self.named("group", group) for group in groups]),
            (["CreateTopic"], [self.named("topic", topic) for topic in creates]),
            (["DescribeGroup"], [self.named("group", group) for group in asks]),
            (
                ["AlterTransactionalId", "DescribeTransactionalId"],
                [self.named("transactional-id", each) for each in transacts],
            ),
        ]
        return [
            iam.PolicyStatement(actions=[f"kafka-cluster:{action}" for action in actions], resources=list(some))
            for actions, resources in wanted
            for some in batched(resources, _RESOURCES, strict=False)
        ]

    def named(self, kind: str, name: str) -> str:
        """Return arn:…:KIND/CLUSTER/UUID/NAME for the cluster's ARN arn:…:cluster/CLUSTER/UUID."""
        before, after = _halves(self.arn)
        return f"{before}:{kind}/{after}/{name}"

    def as_reported(self, kind: str, name: str, *, is_same_stack: bool = False) -> str:
        """Return an ARN in the format of AwsSolutions findings about a resource of another stack, or of this one."""
        if not Token.is_unresolved(self.arn):
            return self.named(kind, name)
        stack = Stack.of(self)
        arn = self.arn if is_same_stack else stack.export_value(self.arn)
        before, after = (json.dumps(stack.resolve(half), separators=(",", ":")) for half in _halves(arn))
        return f"{before}:{kind}/{after}/{name}"


def _halves(arn: str) -> list[str]:
    if not Token.is_unresolved(arn):
        return arn.split(":cluster/")
    return [Fn.select(part, Fn.split(":cluster/", arn)) for part in (0, 1)]


_SASL_IAM = "BootstrapBrokerStringSaslIam"
# The resources of one statement: CDK divides a role's policy between statements, and a managed policy may have 6,144
# characters.
_RESOURCES = 30
