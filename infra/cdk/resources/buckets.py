"""Buckets: the archive of every record, and the logs of who read what."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.resources.logs import removal
from infra.cdk.settings import Environment


class Buckets(Construct):
    """archive: Parquet by event date and hour, and the stream's checkpoint; access_log: requests to it."""

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, "buckets")
        self.access_log = self._bucket(
            "access-log",
            environment,
            # S3 writes access logs only where it holds the key itself.
            encryption=s3.BucketEncryption.S3_MANAGED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(environment.log_days))],
        )
        self.archive = self._bucket(
            "archive",
            environment,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            server_access_logs_bucket=self.access_log,
            server_access_logs_prefix="archive/",
            versioned=environment.protected,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix="records/",
                    transitions=[
                        s3.Transition(
                            storage_class=s3.StorageClass.INFREQUENT_ACCESS, transition_after=Duration.days(60)
                        )
                    ],
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    noncurrent_version_expiration=Duration.days(30) if environment.protected else None,
                )
            ],
        )

    def _bucket(self, id: str, environment: Environment, **settings: object) -> s3.Bucket:
        return s3.Bucket(
            self,
            id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED
            if id == "access-log"
            else s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=removal(environment),
            **settings,
        )
