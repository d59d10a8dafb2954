"""Creates the S3 buckets: for the archive of counted records, for access logs, and for the files of the console."""

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.before_removal import emptied_before_removal
from infra.cdk.resources.findings import explain
from infra.cdk.resources.logs import removal
from masscomm.kafka.topics import ON_FAILURE, chain_topics


class Buckets(Construct):
    """The buckets of an environment.

    Attributes:
        archive: The bucket of the archive: every record, as Parquet by event date and hour.
        access_log: The bucket of the access log of `archive`.
        discarded: The bucket of the batches that Lambda discards in on-demand mode; None in provisioned mode.
    """

    def __init__(self, scope: Construct, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, "buckets")
        self.access_log = access_log_bucket(self, environment=environment, key=key)
        self.archive = _bucket(
            self,
            "archive",
            environment,
            key,
            **_encrypted_by(key),
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
        self.discarded = None if environment.pollers else self._discarded(environment, key)

    def _discarded(self, environment: Environment, key: kms.IKey) -> s3.Bucket:
        # A batch holds recipients and texts. The scheduler returns it within minutes; one that it cannot read is kept
        # as long as a record of the topic on-failure.
        (kept,) = [topic.retention_hours for topic in chain_topics() if topic.name == ON_FAILURE]
        return _bucket(
            self,
            "discarded-batches",
            environment,
            key,
            **_encrypted_by(key),
            server_access_logs_bucket=self.access_log,
            server_access_logs_prefix="discarded-batches/",
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(kept // 24))],
        )


def access_log_bucket(scope: Construct, *, environment: Environment, key: kms.IKey) -> s3.IBucket:
    """Return a bucket for the access logs of S3 and load balancers. It has S3-managed keys, because access logs can
    be written only to such a bucket. The organisation's bucket, if there is one, has a policy that admits them.
    """
    if environment.existing.access_log_bucket is not None:
        return s3.Bucket.from_bucket_name(scope, "access-log", environment.existing.access_log_bucket)
    bucket = _bucket(
        scope,
        "access-log",
        environment,
        key,
        encryption=s3.BucketEncryption.S3_MANAGED,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED,
        lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(environment.log_days))],
    )
    explain(bucket, "the bucket holds access logs: access to them is not logged again", "S1")
    return bucket


def console_bucket(scope: Construct, *, environment: Environment, key: kms.IKey, access_log: s3.IBucket) -> s3.Bucket:
    """Return the bucket of the console's files. They are public and come from the build: they have S3-managed keys, and
    no versions.
    """
    return _bucket(
        scope,
        "console-files",
        environment,
        key,
        encryption=s3.BucketEncryption.S3_MANAGED,
        server_access_logs_bucket=access_log,
        server_access_logs_prefix="files/",
    )


def snapshot_bucket(scope: Construct, *, environment: Environment, key: kms.IKey, access_log: s3.IBucket) -> s3.Bucket:
    """Return the bucket of directory_state's snapshots. It has one object, which is replaced each ten minutes, and goes
    after two days without a task.
    """
    return _bucket(
        scope,
        "snapshots",
        environment,
        key,
        **_encrypted_by(key),
        server_access_logs_bucket=access_log,
        server_access_logs_prefix="snapshots/",
        lifecycle_rules=[
            s3.LifecycleRule(expiration=Duration.days(2), abort_incomplete_multipart_upload_after=Duration.days(1))
        ],
    )


def locked_bucket(
    scope: Construct, *, environment: Environment, key: kms.IKey, access_log: s3.IBucket, days: int
) -> s3.Bucket:
    """Return a bucket under object lock: for some days, not even an administrator can change or delete an object.

    Objects are deleted afterwards. Object lock needs versions, of which an expired object leaves one behind:
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html#object-lock-managing-lifecycle
    """
    return _bucket(
        scope,
        "locked",
        environment,
        key,
        **_encrypted_by(key),
        server_access_logs_bucket=access_log,
        server_access_logs_prefix="locked/",
        versioned=True,
        object_lock_default_retention=s3.ObjectLockRetention.compliance(Duration.days(days)),
        lifecycle_rules=[
            s3.LifecycleRule(expiration=Duration.days(days + 1), noncurrent_version_expiration=Duration.days(1)),
            s3.LifecycleRule(expired_object_delete_marker=True),
        ],
    )


def _encrypted_by(key: kms.IKey) -> dict[str, object]:
    return {"encryption": s3.BucketEncryption.KMS, "encryption_key": key, "bucket_key_enabled": True}


def _bucket(scope: Construct, id: str, environment: Environment, key: kms.IKey, **properties: object) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        removal_policy=removal(environment),
        **{"object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED, **properties},
    )
    emptied_before_removal(scope, bucket, environment=environment, key=key)
    return bucket
