"""The default quotas of an AWS account, region or service, before any increase."""

from collections.abc import Mapping
from types import MappingProxyType

from infra.cdk.quotas import CONCURRENCY, SPARK
from lab.capacity.figures import Figure, Trust

_READ = "2026-11"
_SNS = "AWS General Reference, Amazon SNS endpoints and quotas, Publish API throttling per account (standard topics)"
_ASK = "Service Quotas: asked for, and granted by AWS"
_POLLERS = "AWS Lambda developer guide, Apache Kafka event poller scaling modes"

# The quota of each listed region. The same source says 300 per second for all other regions.
SNS_PUBLISH: Mapping[str, float] = MappingProxyType(
    {
        "us-east-1": 30_000,
        "us-west-2": 9_000,
        "eu-west-1": 9_000,
        **dict.fromkeys(
            (
                *("us-east-2", "us-west-1", "eu-central-1"),
                *("ap-south-1", "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-2"),
            ),
            1_500,
        ),
    }
)
_SNS_ELSEWHERE = 300


def _quota(name: str, value: float, unit: str, source: str, trust: Trust, raise_by: str, region: str = "any") -> Figure:
    return Figure(
        name=name, value=value, unit=unit, region=region, read=_READ, source=source, trust=trust, raise_by=raise_by
    )


QUOTAS: Mapping[str, Figure] = MappingProxyType(
    {
        quota.name: quota
        for quota in (
            _quota(
                "lambda_concurrency",
                CONCURRENCY.default,
                "invocations at a time in an account and region",
                "AWS Lambda developer guide, quotas",
                Trust.DOCUMENTED,
                _ASK,
            ),
            _quota(
                "lambda_environments_10s",
                1_000,
                "new environments of a function in 10 s",
                "AWS Lambda developer guide, Lambda scaling behavior",
                Trust.DOCUMENTED,
                "not raised: provisioned concurrency before a broadcast",
            ),
            _quota("invocations_a_poller", 5, "invocations at a time", _POLLERS, Trust.DOCUMENTED, "more pollers"),
            _quota("poller_mb_s", 5, "MB/s", _POLLERS, Trust.DOCUMENTED, "more pollers"),
            _quota(
                "pollers_a_unit", 10, "pollers of an event poller unit", _POLLERS, Trust.DOCUMENTED, "billing, no limit"
            ),
            _quota("unit_mb_s", 20, "MB/s of an event poller unit", _POLLERS, Trust.DOCUMENTED, "billing, no limit"),
            _quota("pollers_most", 2_000, "pollers of a mapping", _POLLERS, Trust.DOCUMENTED, "no more"),
            _quota(
                "payload_mb",
                6,
                "MB of one event",
                "AWS Lambda developer guide, quotas",
                Trust.DOCUMENTED,
                "no more: Lambda makes smaller batches",
            ),
            _quota(
                "ses_rate",
                14,
                "e-mails/s",
                "quoted by several as the quota of an account after the sandbox; the SES console has the actual one",
                Trust.UNVERIFIED,
                "SES: sending limits increase",
            ),
            _quota(
                "dynamodb_new_table_writes",
                4_000,
                "write units/s of a new table",
                "Amazon DynamoDB developer guide, on-demand mode",
                Trust.DOCUMENTED,
                "warm throughput of the table",
            ),
            _quota(
                "dynamodb_table_writes",
                40_000,
                "write units/s of a table on demand",
                "Amazon DynamoDB developer guide, quotas",
                Trust.DOCUMENTED,
                _ASK,
            ),
            _quota(
                "dynamodb_partition_writes",
                1_000,
                "write units/s of one partition",
                "Amazon DynamoDB developer guide, quotas",
                Trust.DOCUMENTED,
                "no more: a partition key for each record, as it is",
            ),
            _quota(
                "kafka_partitions_a_broker",
                1_000,
                "partitions with their replicas (m7g.large, m7g.xlarge; 300 for t3.small)",
                "Amazon MSK developer guide, best practices for standard brokers",
                Trust.DOCUMENTED,
                "more brokers, or larger ones",
            ),
            _quota(
                "kafka_mb_s_a_broker",
                15,
                "MB/s written to a broker",
                "Amazon MSK developer guide, express brokers: 45 MB/s for three m7g.large. Standard brokers have no "
                "published figure; this one is used instead",
                Trust.UNVERIFIED,
                "more brokers, or larger ones",
            ),
            _quota(
                "kafka_gb_a_broker",
                16_384,
                "GiB of the disk of a broker",
                "Amazon MSK developer guide, quota for standard brokers",
                Trust.DOCUMENTED,
                "more brokers, or a shorter retention",
            ),
            _quota(
                "emr_vcpus",
                SPARK.default,
                "vCPUs of EMR Serverless at a time",
                "Amazon EMR Serverless user guide, quotas; accounts differ",
                Trust.DOCUMENTED,
                _ASK,
            ),
        )
    }
)


def quota(name: str) -> float:
    """Return the default value of a quota. Raises KeyError."""
    return QUOTAS[name].value


def sns_publish(region: str) -> Figure:
    """Return the Publish calls per second that an account may make in a region. PublishBatch does not help with
    pushes, because it supports only topics.
    """
    return _quota(
        "sns_publish",
        SNS_PUBLISH.get(region, _SNS_ELSEWHERE),
        "publishes/s",
        _SNS,
        Trust.DOCUMENTED,
        _ASK,
        region=region,
    )
