"""Creates MSK Connect with Debezium: change data capture from the monolith's tables to Kafka."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kafkaconnect as connect
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.cdk.code import ROOT
from infra.cdk.config import Environment
from infra.cdk.resources.authorities import ONE_AUTHORITY
from infra.cdk.resources.findings import explain
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.network import Place
from infra.cdk.resources.task import read_secrets
from masscomm.cdc.debezium import debezium_config, heartbeat_topic, largest_record
from masscomm.kafka.topics import cdc_topics, generations

# The plug-in that `make setup` builds; local/devstack/jars/debezium/pom.xml and infra/connect pin its versions.
PLUGIN = ROOT / ".devstack" / "connect-plugin"
_VERSION = "3.7.x"
# The names of MSK Connect's internal topics and groups, which it creates with the connector.
_OWN = "__amazon_msk_connect_*"

WORKER = """\
# fields of secrets, read by the worker when it starts a task: they stand in no configuration
config.providers=secretsmanager
config.providers.secretsmanager.class=masscomm.connect.SecretsManagerConfigProvider
config.providers.secretsmanager.param.region={region}
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
# A name that stays when the connector is made anew, and that the functions know.
offset.storage.topic={offsets}
offset.flush.interval.ms=1000
# A change waits for no other: a connector cannot say so itself, MSK Connect has no client overrides.
producer.linger.ms=0
producer.max.request.size={largest_record}
"""


class DebeziumConnector(Construct):
    """One connector for each snapshot generation (one snapshot of the tables with the changes after it).

    Attributes:
        log: The log group of the workers.
        names: The names of the connectors by generation.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        place: Place,
        kafka: KafkaCluster,
        offsets_topic: str,
        plugin: Path = PLUGIN,
    ) -> None:
        super().__init__(scope, "debezium")
        self.names = {each: connector_name(environment, each) for each in generations(environment.generation)}
        self.log: logs.LogGroup = log_group(self, "log", environment=environment, key=key)
        archive = assets.Asset(self, "plugin", path=str(plugin), exclude=[".stamp"])
        properties = WORKER.format(
            offsets=offsets_topic, region=environment.region, largest_record=largest_record()
        ).encode()
        worker = connect.CfnWorkerConfiguration(
            self,
            "worker",
            # A worker configuration is immutable, like a plugin.
            name=f"{environment.prefix}-monolith-{sha256(properties).hexdigest()[:12]}",
            properties_file_content=base64.b64encode(properties).decode(),
        )
        custom = connect.CfnCustomPlugin(
            self,
            "debezium",
            # A custom plugin is immutable: changed content needs a new plugin with a new name.
            name=f"{environment.prefix}-debezium-{archive.asset_hash[:12]}",
            content_type="ZIP",
            location=connect.CfnCustomPlugin.CustomPluginLocationProperty(
                s3_location=connect.CfnCustomPlugin.S3LocationProperty(
                    bucket_arn=archive.bucket.bucket_arn, file_key=archive.s3_object_key
                )
            ),
        )
        role = self._role(environment, kafka, offsets_topic)
        for generation, name in self.names.items():
            connect.CfnConnector(
                self,
                f"connector-{generation}",
                connector_name=name,
                kafka_connect_version=_VERSION,
                capacity=connect.CfnConnector.CapacityProperty(
                    # A second worker would be idle, because only one task can read the replication slot.
                    provisioned_capacity=connect.CfnConnector.ProvisionedCapacityProperty(mcu_count=1, worker_count=1)
                ),
                connector_configuration=connector_configuration(environment, generation),
                kafka_cluster=connect.CfnConnector.KafkaClusterProperty(
                    apache_kafka_cluster=connect.CfnConnector.ApacheKafkaClusterProperty(
                        bootstrap_servers=kafka.bootstrap_servers,
                        vpc=connect.CfnConnector.VpcProperty(
                            subnets=place.subnet_ids,
                            security_groups=[place.group.security_group_id],
                        ),
                    )
                ),
                kafka_cluster_client_authentication=connect.CfnConnector.KafkaClusterClientAuthenticationProperty(
                    authentication_type="IAM"
                ),
                kafka_cluster_encryption_in_transit=connect.CfnConnector.KafkaClusterEncryptionInTransitProperty(
                    encryption_type="TLS"
                ),
                plugins=[
                    connect.CfnConnector.PluginProperty(
                        custom_plugin=connect.CfnConnector.CustomPluginProperty(
                            custom_plugin_arn=custom.attr_custom_plugin_arn, revision=custom.attr_revision
                        )
                    )
                ],
                worker_configuration=connect.CfnConnector.WorkerConfigurationProperty(
                    worker_configuration_arn=worker.attr_worker_configuration_arn, revision=worker.attr_revision
                ),
                log_delivery=connect.CfnConnector.LogDeliveryProperty(
                    worker_log_delivery=connect.CfnConnector.WorkerLogDeliveryProperty(
                        cloud_watch_logs=connect.CfnConnector.CloudWatchLogsLogDeliveryProperty(
                            enabled=True, log_group=self.log.log_group_name
                        )
                    )
                ),
                service_execution_role_arn=role.role_arn,
            )

    def _role(self, environment: Environment, kafka: KafkaCluster, offsets_topic: str) -> iam.Role:
        role = iam.Role(
            self,
            "role",
            assumed_by=iam.ServicePrincipal(
                "kafkaconnect.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
        )
        for statement in connector_statements(
            self,
            environment=environment,
            kafka=kafka,
            internal_topics=[_OWN, offsets_topic],
            groups=[_OWN],
        ):
            role.add_to_policy(statement)
        explain(
            role,
            "MSK Connect names its internal topics and groups after the id that the connector gets at its creation",
            *(f"IAM5[Resource::{kafka.as_reported(kind, _OWN)}]" for kind in ("topic", "group")),
        )
        return role


def connector_name(environment: Environment, generation: str) -> str:
    """Return the name of the connector of a snapshot generation."""
    return f"{environment.prefix}-monolith-{generation}"


def connector_configuration(environment: Environment, generation: str) -> dict[str, str]:
    """Return the configuration of a connector. Its credentials are references to the monolith's secret."""
    secret = environment.monolith.secret_name
    return debezium_config(generation, environment.global_prefix) | {
        # With the default `restart`, MSK Connect would restart the connector repeatedly, because its values are
        # references to a secret.
        "config.action.reload": "none",
        "database.hostname": _secret(secret, "host"),
        "database.port": _secret(secret, "port"),
        "database.user": _secret(secret, "username"),
        "database.password": _secret(secret, "password"),
        "database.dbname": _secret(secret, "dbname"),
        "database.sslmode": "verify-full",
        # The secret contains the certificate authority of the database, because no file on the workers does.
        "database.sslfactory": ONE_AUTHORITY,
        "driver.sslfactoryarg": _secret(secret, "ca"),
        "topic.creation.default.replication.factor": str(environment.kafka.replication_factor),
    }


def connector_statements(
    scope: Construct,
    *,
    environment: Environment,
    kafka: KafkaCluster,
    internal_topics: Sequence[str],
    groups: Sequence[str],
) -> list[iam.PolicyStatement]:
    """Return the permissions of the workers.

    Args:
        scope: The construct of the workers.
        environment: The environment.
        kafka: The cluster.
        internal_topics: The topics of Kafka Connect itself, which it creates.
        groups: The consumer groups of Kafka Connect itself.
    """
    secret = secretsmanager.Secret.from_secret_name_v2(scope, "monolith", environment.monolith.secret_name)
    captured = generations(environment.generation)
    tables = [topic.name for topic in cdc_topics(environment.generation)]
    made = [*internal_topics, *(heartbeat_topic(each) for each in captured)]
    names = [connector_name(environment, each) for each in captured]
    return [
        *read_secrets(scope, secret.secret_full_arn or f"{secret.secret_arn}-??????", key=environment.monolith.key_arn),
        *kafka.statements(
            writes=[*tables, *made],
            reads=internal_topics,
            groups=[*groups, *(f"connect-{name}" for name in names)],
            creates=made,
        ),
    ]


def _secret(name: str, field: str) -> str:
    return f"${{secretsmanager:{name}:{field}}}"
