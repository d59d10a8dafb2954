"""The discarded batches in S3: the bucket that is the on-failure destination of the mappings in on-demand mode.

https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from masscomm.aws import sdk
from masscomm.aws.request import Limits
from masscomm.aws.sdk_errors import answering
from masscomm.errors import Retry, Stop

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET_SETTING = "DISCARDED_BATCHES_BUCKET"
# An object has the 6 MB of an event in base64, whose quotes are escaped.
_LIMITS = Limits(connections=1, connect_s=1, read_s=5, attempts=3)
_STOPS = ("NoSuchBucket", "AccessDenied")


class S3DiscardedBatches:
    """The store in a bucket, all objects of which are discarded batches. A request lists at most `page` of them."""

    def __init__(self, client: "S3Client", bucket: str, *, page: int = 1_000) -> None:
        self._client, self.name, self._page = client, bucket, page

    @classmethod
    def from_environment(cls) -> "S3DiscardedBatches | None":
        """Return the store; None if the mappings have no bucket, as in provisioned mode."""
        bucket = os.environ.get(BUCKET_SETTING)
        return cls(sdk.client("s3", _LIMITS), bucket) if bucket else None

    def keys(self) -> Iterator[str]:
        start_after = ""
        while True:
            with self._answering():
                page = self._client.list_objects_v2(Bucket=self.name, StartAfter=start_after, MaxKeys=self._page)
            found = [each["Key"] for each in page.get("Contents", [])]
            yield from found
            if not page["IsTruncated"]:
                return
            start_after = found[-1]

    def read(self, key: str) -> bytes | None:
        with self._answering():
            try:
                return self._client.get_object(Bucket=self.name, Key=key)["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None

    def remove(self, key: str) -> None:
        with self._answering():
            self._client.delete_object(Bucket=self.name, Key=key)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        from botocore.exceptions import ClientError

        try:
            with answering(f"the bucket {self.name}"):
                yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise (Stop if code in _STOPS else Retry)(f"the bucket {self.name}: {code}") from error
