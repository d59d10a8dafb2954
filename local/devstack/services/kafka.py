"""Kafka: one broker that is its own controller (KRaft)."""

import uuid
from base64 import urlsafe_b64encode

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from cli.client_log import KAFKA_LOGGER
from local.devstack.config import StackConfig
from local.devstack.service import RunOnce, Service, class_archive, jars, java, listens, log4j
from local.emulators.local import LOOPBACK

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
# Provisioning creates every topic with its own configuration: a misspelt name must fail, not appear.
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=4
# 128 MB of a 256 MB heap otherwise
log.cleaner.dedupe.buffer.size=8388608
"""


def service(config: StackConfig) -> Service:
    """Return the specification of Kafka: the broker listens on `ports.kafka`, the controller on
    `ports.kafka_controller`.
    """
    folder = config.config_dir("kafka")
    data = config.data("kafka")
    properties = folder / "server.properties"
    logging = folder / "log4j2.properties"
    jvm = java(f"-Dlog4j2.configurationFile={logging}", "-cp", jars("kafka"), heap_mb=256)

    def prepare(run: RunOnce) -> None:
        if not (data / "meta.properties").exists():
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # The id is part of the same argument, because one id in 64 begins with a dash.
            run([*jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", str(properties)])

    def ready() -> bool:
        if not listens(config.ports.kafka):
            return False
        try:
            with AdminClient({"bootstrap.servers": config.kafka_bootstrap}, logger=KAFKA_LOGGER) as admin:
                return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    return Service(
        name="kafka",
        command=[*jvm, "kafka.Kafka", str(properties)],
        ports=("kafka", "kafka_controller"),
        address=config.kafka_bootstrap,
        files={
            properties: PROPERTIES.format(
                host=LOOPBACK, port=config.ports.kafka, controller=config.ports.kafka_controller, data=data
            ),
            logging: log4j(),
        },
        class_archive=class_archive("kafka"),
        prepare=prepare,
        ready=ready,
    )
