"""Implements the destination of discarded batches with S3."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.emulators.local import REGION

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Destination:
    """Writes discarded batches."""

    def __init__(self, client: "S3Client") -> None:
        self._client = client

    async def send(self, bucket: str, key: bytes | None, value: bytes, /) -> None:
        """Implement FailureDestination.send."""
        try:
            await asyncio.to_thread(self._client.put_object, Bucket=bucket, Key=(key or b"").decode(), Body=value)
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error

    async def close(self) -> None:
        """Implement FailureDestination.close."""
        await asyncio.to_thread(self._client.close)


def s3_client(environment: Mapping[str, str]) -> "S3Client":
    """Return a client with the address and credentials of the functions."""
    return boto3.client(
        "s3",
        endpoint_url=environment.get("AWS_ENDPOINT_URL"),
        region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION,
        aws_access_key_id=environment.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=environment.get("AWS_SECRET_ACCESS_KEY"),
        config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}),
    )
