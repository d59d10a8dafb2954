"""Creates the Lambda event source mappings for a function's topics, or for its queue."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.catalogue import EventSource
from infra.cdk.config import Environment
from infra.cdk.resources.external_servers import ExternalKafka
from infra.cdk.resources.findings import explain
from infra.cdk.resources.function import MasscommFunction
from infra.cdk.resources.kafka import KafkaCluster
from masscomm.domain.lanes import Lane

# Settings in functions.yaml that only the local stack uses.
_ONLY_LOCAL = {"partial_failures", "buffer_records", "buffer_bytes", "first_backoff_s", "last_backoff_s"}
# The maximum number of concurrent invocations of a function by its queue.
QUEUE_CONCURRENCY = 10
_KNOWN = {"attempts", "max_age_s", "bisect"}


def consumer_group(group: str, topic: str) -> str:
    """Return the consumer group of one mapping; each mapping has one topic and a separate group."""
    return f"{group}.{topic}"


def poller_group(lane: Lane, environment: Environment) -> str:
    """Return the poller group of a lane's mappings. They share event poller units, the unit in which provisioned
    mode is billed.
    """
    return f"{environment.prefix}-{lane.value}"


class EventSources(Construct):
    """A mapping for each topic of the function.

    For Kafka only provisioned mode supports retries, a maximum record age, bisection, partial batch responses and a
    topic for failed records: https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html. The
    mappings of a lane (kind of send) share event poller units: an idle topic adds no cost. In on-demand mode, failed
    batches go to a bucket.

    Args:
        discarded: The bucket of discarded batches; None in provisioned mode.

    Attributes:
        mappings: The mappings by topic.
        groups: The consumer groups by topic.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        function: MasscommFunction,
        kafka: KafkaCluster | ExternalKafka,
        environment: Environment,
        discarded: s3.IBucket | None,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, "event-sources")
        source = function.entry.event_source
        if source is None:
            raise ValueError(f"{function.name} has no event source")
        if unknown := source.config.keys() - _KNOWN - _ONLY_LOCAL:
            raise ValueError(f"{function.name}: unknown settings of its event source: {', '.join(sorted(unknown))}")
        groups = {topic: consumer_group(function.entry.group, topic) for topic in source.topics}
        function.grant(
            [
                *kafka.statements(
                    reads=source.topics,
                    writes=[source.on_failure] if source.on_failure else [],
                    groups=groups.values(),
                ),
                *kafka.poller_statements(),
            ]
        )
        self.groups = groups
        if source.on_failure and discarded is not None:
            grant_discarded(function, discarded, key)
        self.mappings = {
            topic: self._mapping(topic, group, function, kafka, environment, discarded)
            for topic, group in groups.items()
        }
        for mapping in self.mappings.values():
            # Lambda checks the role's permissions when it creates the mapping.
            mapping.node.add_dependency(function.role)

    def _mapping(
        self,
        topic: str,
        group: str,
        function: MasscommFunction,
        kafka: KafkaCluster | ExternalKafka,
        environment: Environment,
        discarded: s3.IBucket | None,
    ) -> lambda_.CfnEventSourceMapping:
        source = function.entry.event_source
        assert source is not None  # noqa: S101 - checked in __init__
        bucket = None if discarded is None else discarded.bucket_arn
        return lambda_.CfnEventSourceMapping(
            self,
            topic,
            function_name=function.alias.function_arn,
            topics=[topic],
            starting_position="TRIM_HORIZON",
            **kafka.event_source(group),
            batch_size=source.batch_sizes[topic],
            maximum_batching_window_in_seconds=source.windows[topic],
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                    destination=bucket or f"kafka://{source.on_failure}"
                )
            )
            if source.on_failure
            else None,
            metrics_config=lambda_.CfnEventSourceMapping.MetricsConfigProperty(metrics=["EventCount"]),
            **({} if environment.pollers is None else _provisioned(function, source, environment.pollers, environment)),
        )


def _provisioned(
    function: MasscommFunction, source: EventSource, pollers: int, environment: Environment
) -> dict[str, Any]:
    """Return the properties of a mapping that only provisioned mode has."""
    return {
        "maximum_retry_attempts": source.config.get("attempts"),
        "maximum_record_age_in_seconds": source.config.get("max_age_s"),
        "bisect_batch_on_function_error": source.config.get("bisect"),
        "function_response_types": ["ReportBatchItemFailures"],
        "provisioned_poller_config": lambda_.CfnEventSourceMapping.ProvisionedPollerConfigProperty(
            minimum_pollers=1,
            maximum_pollers=pollers,
            poller_group_name=poller_group(function.entry.lane, environment),
        ),
    }


def grant_discarded(
    function: MasscommFunction,
    discarded: s3.IBucket,
    key: kms.IKey,
    *,
    objects: Sequence[str] = ("s3:PutObject",),
    key_use: str = "kms:GenerateDataKey",
) -> None:
    """Permit a function to use the bucket of discarded batches; by default Lambda's writes, which have the permissions
    of the function.

    https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html
    """
    function.grant(
        [
            iam.PolicyStatement(actions=list(objects), resources=[discarded.arn_for_objects("*")]),
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[discarded.bucket_arn]),
            iam.PolicyStatement(
                actions=[key_use],
                resources=[key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"s3.{Stack.of(function).region}.amazonaws.com"}},
            ),
        ]
    )
    stack = Stack.of(discarded)
    bucket = stack.resolve(stack.export_value(discarded.bucket_arn))["Fn::ImportValue"]
    explain(
        function.role,
        "Lambda names the objects, and no others are in the bucket",
        f"IAM5[Resource::{bucket}/*]",
    )


class QueueMapping(Construct):
    """The event source mapping of the function's queue. The messages of a batch that fail stay in the queue.

    Source: Lambda developer guide, "Creating and configuring an Amazon SQS event source mapping".
    """

    def __init__(self, scope: Construct, *, function: MasscommFunction, queue: sqs.IQueue, key: kms.IKey) -> None:
        super().__init__(scope, "queue-mapping")
        source = function.entry.queue
        if source is None:
            raise ValueError(f"{function.name} has no queue")
        function.grant(
            [
                iam.PolicyStatement(
                    actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
                    resources=[queue.queue_arn],
                ),
                iam.PolicyStatement(
                    actions=["kms:Decrypt"],
                    resources=[key.key_arn],
                    conditions={"StringEquals": {"kms:ViaService": f"sqs.{Stack.of(self).region}.amazonaws.com"}},
                ),
            ]
        )
        mapping = lambda_.CfnEventSourceMapping(
            self,
            "mapping",
            function_name=function.alias.function_arn,
            event_source_arn=queue.queue_arn,
            batch_size=source.batch_size,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=lambda_.CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=QUEUE_CONCURRENCY),
            metrics_config=lambda_.CfnEventSourceMapping.MetricsConfigProperty(metrics=["EventCount"]),
        )
        # Lambda checks the role's permissions when it creates the mapping.
        mapping.node.add_dependency(function.role)
