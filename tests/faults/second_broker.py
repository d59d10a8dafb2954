"""A second broker for one cell, which leads the topics of the chain and of change data capture and is killed.

While it runs, each partition has a replica on both brokers, and min.insync.replicas stays 1. With 2, every record would
be rejected once one broker is down. With 1 and acks=all both brokers acknowledge a record as long as both are in sync,
so that the remaining broker has every record acknowledged before the kill. AWS has three replicas, two of them in sync
(KafkaConfig).
"""

import dataclasses
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from cli.client_log import KAFKA_LOGGER
from local.devstack.config import StackConfig
from local.devstack.service import RunOnce, Service, class_archive, jars, java
from local.emulators.local import LOOPBACK
from masscomm.cdc.captured_tables import captured_tables
from masscomm.kafka import topics
from tests.faults.moments import on_its_way
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import KafkaProxy
from tests.support.fault_stack.stack import FaultStack

NAME = "kafka_2"
_REASSIGN = Path(__file__).with_name("Reassign.java")


def leader_killed(bench: Bench, send: Send) -> None:
    """Kill the broker that leads every topic while delivery publishes; request another send before the failover."""
    with _leading(bench):
        on_its_way(bench, send)
        bench.stack.stack.kill(NAME)
        bench.stack.sns.clear()
        bench.emit(bench.shared[500:700])
        bench.settle()


@contextmanager
def _leading(bench: Bench) -> Iterator[None]:
    """Run the second broker as leader; afterwards the first broker leads every topic again."""
    stack = bench.stack
    ports = StackConfig.on_free_ports(stack.config.state_dir).ports
    proxy = KafkaProxy(stack.loop, ports.kafka_controller)
    stack.stack.known[NAME] = _service(
        stack.stack.known["kafka"], stack.config, ports.kafka, ports.kafka_controller, proxy
    )
    stack.stack.restart(NAME)
    try:
        _reassign(stack, "2,1")
        yield
    finally:
        _reassign(stack, "1")


def _service(first: Service, config: StackConfig, port: int, proxied: int, proxy: KafkaProxy) -> Service:
    [(path, text)] = [(path, text) for path, text in first.files.items() if path.name == "server.properties"]
    folder = config.config_dir(NAME)
    data = config.data(NAME)
    own, advertised = f"PLAINTEXT://{LOOPBACK}:{port}", f"PROXIED://{LOOPBACK}:{proxy.port}"
    changed = {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"{own},PROXIED://{LOOPBACK}:{proxied}",
        "advertised.listeners": f"{own},{advertised}",
        "log.dirs": str(data),
    }
    for name, value in changed.items():
        text = re.sub(rf"(?m)^{re.escape(name)}=.*$", f"{name}={value}", text)
    properties, logging = folder / "server.properties", folder / "log4j2.properties"
    jvm = java(f"-Dlog4j2.configurationFile={logging}", "-cp", jars("kafka"), heap_mb=256)

    def prepare(run: RunOnce) -> None:
        if (data / "meta.properties").exists():
            return
        meta = (config.data("kafka") / "meta.properties").read_text()
        found = re.search(r"(?m)^cluster\.id=(.*)$", meta)
        assert found, meta
        run([*jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={found[1]}", "--config", str(properties)])

    def ready() -> bool:
        with AdminClient({"bootstrap.servers": config.kafka_bootstrap}, logger=KAFKA_LOGGER) as admin:
            return 2 in admin.list_topics(timeout=2).brokers

    return dataclasses.replace(
        first,
        name=NAME,
        command=[*jvm, "kafka.Kafka", str(properties)],
        ports=(),
        address=f"{LOOPBACK}:{port}",
        depends_on=("kafka",),
        files={properties: text, logging: first.files[path.with_name("log4j2.properties")]},
        class_archive=class_archive("kafka"),
        prepare=prepare,
        ready=ready,
    )


def _reassign(stack: FaultStack, brokers: str) -> None:
    led = [topic.name for topic in topics.chain_topics()]
    led += [topics.cdc_topic(table, stack.generation) for table in captured_tables()]
    command = [*java("-cp", jars("kafka"), heap_mb=128), str(_REASSIGN), stack.config.kafka_bootstrap, brokers, *led]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
