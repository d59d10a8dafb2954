"""Snapshots of the store in S3: a new task begins with the newest one, and reads only what the topics have since then.

A snapshot is the store at one moment, with the offsets up to which it contains the topics. Whether a store may be
continued, wherever it comes from, decides store.prepare. Without a snapshot, a task reads the topics from their
beginning.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

import lmdb

from directory_state.store import FILE, Store, adopt, empty
from masscomm.domain.time_limits import DIRECTORY_STATE_SNAPSHOT_S
from masscomm.errors import Retry

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client

# The object in the bucket.
KEY = "directory-state.mdb"
# The bytes of a part: a request for each is paid.
_PART_BYTES = 64 * 2**20


class Snapshots:
    """The snapshots in a bucket. Methods raise Retry if S3 does not answer, or refuses a request."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        from boto3.s3.transfer import TransferConfig

        self._client = client
        self._bucket = bucket
        self._transfer = TransferConfig(
            multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=2
        )

    @classmethod
    def in_bucket(cls, bucket: str) -> Self:
        """Return the snapshots in a bucket, with the credentials and the region of this process."""
        import boto3

        return cls(boto3.client("s3"), bucket)

    def fetch(self, folder: Path) -> bool:
        """Make a store of the newest snapshot; return whether there is one.

        Args:
            folder: The folder of the store, which does not exist.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        fetched = folder.with_name(f"{folder.name}.fetched")
        empty(fetched)
        fetched.mkdir(parents=True)
        try:
            self._client.download_file(self._bucket, KEY, str(fetched / FILE), Config=self._transfer)
            adopt(fetched)  # guard: directory_state.adopted_snapshot
        except ClientError as error:
            if _is_missing(error):
                return False
            raise Retry(f"S3 refuses to read the snapshot: {error}") from error
        except (BotoCoreError, OSError, lmdb.Error, ValueError) as error:
            raise Retry(f"the snapshot cannot be read: {error}") from error
        else:
            fetched.rename(folder)
            return True
        finally:
            empty(fetched)

    def keep(self, store: Store, folder: Path) -> bool:
        """Upload a snapshot of a store, unless another task has just done so; return whether it was uploaded.

        Args:
            folder: A folder for the copy.
        """
        from boto3.exceptions import S3UploadFailedError
        from botocore.exceptions import BotoCoreError, ClientError

        empty(folder)
        folder.mkdir(parents=True)
        try:
            if self._age_s() < DIRECTORY_STATE_SNAPSHOT_S / 2:  # guard: directory_state.snapshot_of_another_task
                return False
            store.copy(folder)
            self._client.upload_file(str(folder / FILE), self._bucket, KEY, Config=self._transfer)
        except (BotoCoreError, ClientError, S3UploadFailedError, OSError, lmdb.Error) as error:
            raise Retry(f"the snapshot cannot be stored: {error}") from error
        finally:
            empty(folder)
        return True

    def _age_s(self) -> float:
        """Return the age of the newest snapshot."""
        from botocore.exceptions import ClientError

        try:
            stored = self._client.head_object(Bucket=self._bucket, Key=KEY)["LastModified"]
        except ClientError as error:
            if _is_missing(error):
                return float("inf")
            raise
        return (datetime.now(UTC) - stored).total_seconds()


def _is_missing(error: "ClientError") -> bool:
    """Return whether there is no snapshot: with the permission to list the bucket, only a missing object is 404.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
    """
    return error.response["Error"]["Code"] == "404"
