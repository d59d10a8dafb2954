"""Creates the copy of the audit log: a bucket in which no object can be changed or deleted while the log is kept, and
the function that fills it from the table's stream.

IAM cannot demand the condition with which an entry is written (PutItem has no condition key for it), so the copy is the
proof that no entry was replaced: each change of the table is in it.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
"""

from collections.abc import Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import AUDIT
from infra.cdk.resources.buckets import Buckets, locked_bucket
from infra.cdk.resources.findings import explain
from infra.cdk.resources.handler import Handler
from masscomm.domain.time_limits import AUDIT_KEPT_S

_KEPT_DAYS = AUDIT_KEPT_S // 86_400


class AuditCopy(Construct):
    """The copy of the audit log.

    Attributes:
        copier: The function that fills the bucket.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        environment: Environment,
        key: kms.IKey,
        table: dynamodb.ITable,
        access_log: s3.IBucket,
    ) -> None:
        super().__init__(scope, "audit-copy")
        stack = Stack.of(self)
        bucket = locked_bucket(self, environment=environment, key=key, access_log=access_log, days=_KEPT_DAYS)
        stream = table.table_stream_arn
        if stream is None:
            raise ValueError("the table of the audit log has no stream")
        handler = Handler(
            self,
            module="copy_audit",
            environment=environment,
            key=key,
            variables={"BUCKET": bucket.bucket_name},
            statements=[
                # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/iam-policy-example-lamda-process-dynamodb-streams.html
                iam.PolicyStatement(
                    actions=[
                        f"dynamodb:{action}"
                        for action in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
                    ],
                    resources=[stream],
                ),
                iam.PolicyStatement(actions=["s3:PutObject"], resources=[bucket.arn_for_objects("*")]),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
                    resources=[key.key_arn],
                    conditions={
                        "StringEquals": {
                            "kms:ViaService": [
                                f"{service}.{stack.region}.amazonaws.com" for service in ("dynamodb", "s3")
                            ]
                        }
                    },
                ),
            ],
        )
        self.copier = handler.function
        explain(
            handler,
            "an object for each batch of the stream, in this one bucket",
            f"IAM5[Resource::<{stack.get_logical_id(bucket.node.default_child)}.Arn>/*]",
        )
        self.copier.add_event_source_mapping(
            "stream",
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=1000,
            max_batching_window=Duration.seconds(10),
            # By default, a batch is repeated until its changes leave the stream, after a day: an alarm watches errors.
        )


def audit_copy(
    scope: Construct,
    environment: Environment,
    key: kms.IKey,
    tables: Mapping[str, dynamodb.ITable],
    buckets: Buckets,
) -> AuditCopy | None:
    """Return the copy of the audit log of a protected environment; None for another, whose data may be deleted."""
    if not environment.protected:
        return None
    return AuditCopy(scope, environment=environment, key=key, table=tables[AUDIT], access_log=buckets.access_log)
