"""Creates Kafka Connect with Debezium as one task on Fargate: change data capture from the monolith's tables to Kafka.

It is a task of its own, although one task could run the registry, too: Fargate charges CPU and memory whatever the
number of tasks, and two tasks have two roles, two security groups and deployments of their own.
"""

import json

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.cdk.config import ConnectTaskConfig, Environment
from infra.cdk.images import CONNECT_HOME, connect_image
from infra.cdk.resources.connector import WORKER, connector_configuration, connector_name, connector_statements
from infra.cdk.resources.findings import explain
from infra.cdk.resources.kafka import KafkaCluster
from infra.cdk.resources.logs import log_group
from infra.cdk.resources.network import Place
from infra.cdk.resources.registry import tasks_cluster
from infra.cdk.resources.task import container_image, task_definition
from masscomm.cdc.debezium import largest_record
from masscomm.kafka.topics import generations

GROUP = "masscomm-connect"
CONFIGS_TOPIC, STATUSES_TOPIC = "connect.configs", "connect.statuses"
# The REST interface has no authentication: it listens on the loopback interface, which only this task's container has.
_REST = "http://127.0.0.1:8083"
# The worker and the clients of its connectors sign in with the task's role.
# https://docs.aws.amazon.com/msk/latest/developerguide/iam-access-control-use-cases.html
_SIGN_IN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    # A t3.small broker accepts four new connections by IAM a second.
    # https://docs.aws.amazon.com/msk/latest/developerguide/limits.html
    "reconnect.backoff.ms": "1000",
}
_OWN = """\
bootstrap.servers={bootstrap}
group.id={group}
listeners={rest}
plugin.path={home}/plugins
plugin.discovery=service_load
config.storage.topic={configs}
config.storage.replication.factor={replication}
offset.storage.replication.factor={replication}
offset.storage.partitions=1
status.storage.topic={statuses}
status.storage.replication.factor={replication}
status.storage.partitions=1
# One worker: a task that is started again waits for no other.
scheduled.rebalance.max.delay.ms=0
"""


class ConnectTask(Construct):
    """One worker with a connector for each snapshot generation.

    Attributes:
        service: The Fargate service.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        config: ConnectTaskConfig,
        key: kms.IKey,
        place: Place,
        kafka: KafkaCluster,
        offsets_topic: str,
    ) -> None:
        super().__init__(scope, "connect")
        name = f"{environment.prefix}-connect"
        cluster = tasks_cluster(self, environment=environment, vpc=place.vpc, name=name)
        self.service = ecs.FargateService(
            self,
            "service",
            cluster=cluster,
            service_name="connect",
            task_definition=self._task(environment, config, key, kafka, offsets_topic),
            desired_count=1,
            # A replication slot has one reader: the former task ends before the next one starts.
            min_healthy_percent=0,
            max_healthy_percent=100,
            # A task ends while the monolith cannot be reached; ECS starts further ones until it can.
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=False),
            vpc_subnets=place.subnets,
            security_groups=[place.group],
        )

    def _task(
        self,
        environment: Environment,
        config: ConnectTaskConfig,
        key: kms.IKey,
        kafka: KafkaCluster,
        offsets_topic: str,
    ) -> ecs.FargateTaskDefinition:
        task = task_definition(self, family=f"{environment.prefix}-connect", cpu=config.cpu, memory_mb=config.memory_mb)
        connectors = {
            connector_name(environment, each): connector_configuration(environment, each)
            for each in generations(environment.generation)
        }
        folders = ":".join(f"{CONNECT_HOME}/{each}/*" for each in ("kafka", "msk-iam", "task"))
        # The worker reads the secret with the task's role, so that no variable holds a credential.
        task.add_container(
            "connect",
            image=container_image(self, environment, connect_image()),
            logging=ecs.LogDriver.aws_logs(
                stream_prefix="connect", log_group=log_group(self, "log", environment=environment, key=key)
            ),
            entry_point=["java", "-XX:MaxRAMPercentage=60", "-cp", folders, "masscomm.connect.ConnectTask"],
            environment={
                "CONNECT_PROPERTIES": _properties(environment, kafka, offsets_topic),
                "CONNECTORS": json.dumps(connectors, sort_keys=True),
                "CONNECT_URL": _REST,
            },
            # The properties are written to a temporary file.
            readonly_root_filesystem=False,
        )
        for statement in connector_statements(
            self,
            environment=environment,
            kafka=kafka,
            internal_topics=[offsets_topic, CONFIGS_TOPIC, STATUSES_TOPIC],
            groups=[GROUP],
        ):
            task.add_to_task_role_policy(statement)
        explain(task, "the variables hold addresses and references to the secret; credentials are in none", "ECS2")
        return task


def _properties(environment: Environment, kafka: KafkaCluster, offsets_topic: str) -> str:
    """Return the worker's properties: those of MSK Connect, and those that MSK Connect would set itself."""
    shared = WORKER.format(offsets=offsets_topic, region=environment.region, largest_record=largest_record())
    own = _OWN.format(
        bootstrap=kafka.bootstrap_servers,
        group=GROUP,
        rest=_REST,
        home=CONNECT_HOME,
        configs=CONFIGS_TOPIC,
        statuses=STATUSES_TOPIC,
        replication=environment.kafka.replication_factor,
    )
    clients = ("", "producer.", "consumer.", "admin.")
    sign_in = [f"{client}{name}={value}\n" for client in clients for name, value in _SIGN_IN.items()]
    return shared + own + "".join(sign_in)
