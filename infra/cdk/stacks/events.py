"""The Spark job that makes events of the organisation's own topics."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.code import EVENT_SOURCES
from infra.cdk.config import Environment
from infra.cdk.resources.findings import explain
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.streaming_job import EVENTS, StreamingJob
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.network import NetworkStack
from masscomm.kafka.event_sources import GROUP, EventSources
from masscomm.kafka.topics import DEAD_LETTER, EVENT


class EventsStack(Stack):
    """The stack of the job.

    Attributes:
        job: The job.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack,
        registry: RegistryAccess,
        sources: EventSources,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-events", env={"region": environment.region})
        self.job = StreamingJob(
            self,
            environment=environment,
            key=base.key,
            place=base.network.place("spark"),
            kind=EVENTS,
            event_sources=environment.event_sources,
            variables={
                "SPARK_MASTER": "emr",
                "MASSCOMM_ENVIRONMENT": environment.name,
                "KAFKA_BOOTSTRAP_SERVERS": data.kafka.bootstrap_servers,
                "KAFKA_AUTHENTICATION": data.kafka.authentication,
                "AWS_REGION": environment.region,
                **registry.variables,
                "SPARK_EVENT_SOURCES": f"./sources/{EVENT_SOURCES}",
                "SPARK_TRIGGER_MS": str(environment.spark.trigger_ms),
            },
            # A pattern of topics is one of IAM, too: * stands for any characters in both.
            statements=[
                *data.kafka.statements(reads=sources.topics, writes=[EVENT, DEAD_LETTER], groups=[GROUP]),
                *registry.statements(self),
            ],
        )
        patterns = [data.kafka.as_reported("topic", each) for each in sources.topics if "*" in each]
        explain(
            self.job.role,
            "the organisation creates topics whose names match the pattern",
            *(f"IAM5[Resource::{each}]" for each in patterns),
        )
