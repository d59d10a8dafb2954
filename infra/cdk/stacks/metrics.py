"""The Spark jobs: the streaming job that counts, the job that erases one person, and the daily runs on the archive."""

from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import (
    CATEGORIES,
    ENDPOINTS,
    ERASURE_REQUESTS,
    EVENT_TYPES,
    FREQUENCY_CAPS,
    LEDGER,
    METRICS_WRITER,
    SENDS,
    UNDELIVERED,
    WAITING,
)
from infra.cdk.resources.archive_catalog import ArchiveCatalog
from infra.cdk.resources.archive_runs import HOURS, ArchiveRuns
from infra.cdk.resources.erase_job import EraseJob
from infra.cdk.resources.findings import explain
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.spark_run import RECORDS
from infra.cdk.resources.streaming_job import StreamingJob
from infra.cdk.stacks.data import DataStack
from infra.cdk.stacks.network import NetworkStack
from masscomm.kafka.topics import SOURCE_RECORDS_GROUP, SPARK_GROUP, chain_topics

JOB = "spark_metrics"


@dataclass(frozen=True, kw_only=True)
class Counting:
    """The jobs that count and archive."""

    # The streaming job.
    job: StreamingJob
    # The daily runs on the archive.
    runs: ArchiveRuns


class MetricsStack(Stack):
    """The stack of the Spark jobs.

    Attributes:
        erasure: The job that erases one person.
        counting: The other jobs; None: the environment has no metrics.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        base: NetworkStack,
        data: DataStack,
        registry: RegistryAccess,
    ) -> None:
        super().__init__(scope, f"{environment.prefix}-metrics", env={"region": environment.region})
        archive = data.buckets.archive
        shared = {"environment": environment, "key": base.key}
        catalog = ArchiveCatalog(self, environment=environment, archive=archive, folder=RECORDS)
        variables = {
            **catalog.variables,
            "SPARK_MASTER": "emr",
            "MASSCOMM_ENVIRONMENT": environment.name,
            "KAFKA_BOOTSTRAP_SERVERS": data.kafka.bootstrap_servers,
            "KAFKA_AUTHENTICATION": data.kafka.authentication,
            "AWS_REGION": environment.region,
            **registry.variables,
            # The job connects without the proxy, because COPY and temporary tables would pin each of its connections.
            "METRICS_DATABASE_URL": data.metrics.writer.url(METRICS_WRITER),
            "METRICS_DATABASE_AUTHENTICATION": data.metrics.writer.authentication,
            "SPARK_ARCHIVE_DIR": archive.s3_url_for_object(catalog.folder),
            "SPARK_RECIPIENT_LOG": str(environment.spark.recipient_log).lower(),
        }
        self.erasure = EraseJob(
            self,
            place=base.network.place("erasure"),
            archive=archive,
            other_runs=len(HOURS) if environment.has("metrics") else 0,
            tables={
                name: data.tables[name]
                for name in (LEDGER, SENDS, WAITING, UNDELIVERED, ENDPOINTS, FREQUENCY_CAPS, CATEGORIES)
            },
            applications=[
                self.format_arn(service="sns", resource="app", resource_name=f"{kind}/{environment.prefix}-{platform}")
                for platform, kind in environment.platforms
            ],
            variables=variables
            | {
                "OPENSEARCH_URL": data.directory.url,
                "OPENSEARCH_AUTHENTICATION": data.directory.authentication,
                "CDC_GENERATION": environment.generation,
                "EVENT_TYPES_TABLE": data.tables[EVENT_TYPES].table_name,
            },
            statements=[
                *data.directory.statements(ERASURE_REQUESTS),
                *registry.statements(self),
                iam.PolicyStatement(actions=["dynamodb:Query"], resources=[data.tables[EVENT_TYPES].table_arn]),
                *data.metrics.writer.statements(self, METRICS_WRITER),
                *catalog.statements,
            ],
            **shared,
        )
        self.counting: Counting | None = None
        if environment.has("metrics"):
            read = [topic.name for topic in chain_topics() if JOB in topic.consumers]
            written = [topic.name for topic in chain_topics() if JOB in topic.producers]
            job = StreamingJob(
                self,
                place=base.network.place("spark"),
                archive=archive,
                variables=variables
                | {
                    "SPARK_TRIGGER_MS": str(environment.spark.trigger_ms),
                    "CATEGORIES_TABLE": data.tables[CATEGORIES].table_name,
                },
                statements=[
                    *data.kafka.statements(
                        reads=read, writes=written, groups=[SPARK_GROUP], asks=[SOURCE_RECORDS_GROUP]
                    ),
                    *data.metrics.writer.statements(self, METRICS_WRITER),
                    *registry.statements(self),
                    iam.PolicyStatement(
                        # The calls of masscomm/stores/categories/dynamodb.py.
                        actions=["dynamodb:GetItem", "dynamodb:Query"],
                        resources=[data.tables[CATEGORIES].table_arn],
                    ),
                    *catalog.statements,
                ],
                every_minutes=environment.spark.every_minutes,
                **shared,
            )
            runs = ArchiveRuns(
                self,
                application=self.erasure.application,
                archive=archive,
                variables=variables,
                statements=[*data.metrics.writer.statements(self, METRICS_WRITER), *catalog.statements],
                **shared,
            )
            self.counting = Counting(job=job, runs=runs)
        paths = dict.fromkeys(request.partition(" ")[2] for request in ERASURE_REQUESTS)
        explain(
            self.erasure.role,
            "all generations of an index: each may contain the person",
            *(f"IAM5[Resource::{data.directory.as_reported(path)}]" for path in paths if "*" in path),
        )
