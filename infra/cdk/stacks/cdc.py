"""The stack of change data capture."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import CONNECT_OFFSETS_TOPIC
from infra.cdk.resources.connect_task import ConnectTask
from infra.cdk.resources.connector import DebeziumConnector
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.network import NetworkStack


class CdcStack(Stack):
    """The stack of change data capture.

    Attributes:
        debezium: The Debezium connectors in MSK Connect; None: they are in `task`.
        task: Kafka Connect in a task on Fargate; None: MSK Connect runs the connectors.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack, data: DataStack) -> None:
        super().__init__(scope, f"{environment.prefix}-cdc", env={"region": environment.region})
        shared = {
            "environment": environment,
            "key": base.key,
            "place": base.network.place("connect"),
            "kafka": data.kafka,
            "offsets_topic": CONNECT_OFFSETS_TOPIC,
        }
        config = environment.connect_task
        self.debezium = DebeziumConnector(self, **shared) if config is None else None
        self.task = None if config is None else ConnectTask(self, config=config, **shared)
