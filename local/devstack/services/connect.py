"""Kafka Connect with Debezium's PostgreSQL connector."""

from local.devstack.config import StackConfig
from local.devstack.service import Service, answers, class_archive, jars, java, log4j
from local.devstack.setup import CONNECT_PLUGIN
from local.emulators.local import LOOPBACK
from masscomm.cdc.debezium import largest_record

PROPERTIES = """\
bootstrap.servers={bootstrap}
group.id=masscomm-connect
listeners=http://{host}:{port}
rest.advertised.host.name={host}
plugin.path={plugins}
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
config.storage.topic=connect.configs
config.storage.replication.factor=1
offset.storage.topic=connect.offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic=connect.statuses
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=1000
# as in MSK Connect, where a connector has no client overrides
producer.linger.ms=0
producer.max.request.size={largest_record}
# one worker: nothing to wait for when it comes back
scheduled.rebalance.max.delay.ms=0
session.timeout.ms=6000
heartbeat.interval.ms=2000
"""


def service(config: StackConfig) -> Service:
    """Return the specification of Kafka Connect: its REST API listens on `ports.connect`, and it starts after the
    broker.
    """
    folder = config.config_dir("connect")
    properties = folder / "connect.properties"
    logging = folder / "log4j2.properties"
    jvm = java(f"-Dlog4j2.configurationFile={logging}", "-cp", jars("kafka"), heap_mb=320)
    return Service(
        name="connect",
        command=[*jvm, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)],
        ports=("connect",),
        depends_on=("kafka",),
        address=config.connect_url,
        files={
            properties: PROPERTIES.format(
                bootstrap=config.kafka_bootstrap,
                host=LOOPBACK,
                port=config.ports.connect,
                plugins=CONNECT_PLUGIN,
                largest_record=largest_record(),
            ),
            logging: log4j(io_debezium="info", org_apache_kafka_connect="info"),
        },
        class_archive=class_archive("connect"),
        # /connectors responds only after the worker has joined its group and read its configuration topic.
        ready=answers(f"{config.connect_url}/connectors"),
    )
