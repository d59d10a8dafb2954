"""The Parquet files of an earlier version's archive, in a folder or in S3 (spark_metrics.move_archive)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from masscomm.aws import sdk
from masscomm.aws.request import Limits

_MARK = "_archive_id"
_BATCH_PARTS = 3
_MOST_DELETED_AT_ONCE = 1_000


class EarlierFiles(Protocol):
    def mark(self) -> str | None:
        """Return the archive's mark."""

    def batches(self) -> list[str]:
        """Return the folders <archive>/date=…/hour=…/batch=<number>, in order."""

    def delete(self) -> None:
        """Delete all batches."""


def earlier_files(folder: str) -> EarlierFiles:
    """Return the files in a folder, or below an URL s3://bucket/prefix."""
    return _InS3(folder) if folder.startswith("s3://") else _InFolder(Path(folder))


class _InFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def mark(self) -> str | None:
        path = self._folder / _MARK
        return path.read_text().strip() if path.exists() else None

    def batches(self) -> list[str]:
        return sorted(map(str, self._folder.glob("date=*/hour=*/batch=*")))

    def delete(self) -> None:
        for day in self._folder.glob("date=*"):
            shutil.rmtree(day)


class _InS3:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._bucket, self._prefix = parts.netloc, parts.path.strip("/") + "/"
        self._client: Any = sdk.client("s3", Limits(connections=1, connect_s=5, read_s=60, attempts=4))

    def mark(self) -> str | None:
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=self._prefix + _MARK)
        except self._client.exceptions.NoSuchKey:
            return None
        return bytes(found["Body"].read()).decode().strip()

    def batches(self) -> list[str]:
        folders = {tuple(key.removeprefix(self._prefix).split("/")[:_BATCH_PARTS]) for key in self._keys()}
        named = ["/".join(parts) for parts in folders if parts[-1].startswith("batch=")]
        return [f"s3://{self._bucket}/{self._prefix}{name}" for name in sorted(named)]

    def delete(self) -> None:
        keys = list(self._keys())
        for begin in range(0, len(keys), _MOST_DELETED_AT_ONCE):
            objects = [{"Key": key} for key in keys[begin : begin + _MOST_DELETED_AT_ONCE]]
            done = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
            if failed := done.get("Errors"):
                raise OSError(f"{len(failed)} files cannot be deleted; the first: {failed[0]}")

    def _keys(self) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}date="
        )
        for page in pages:
            for found in page.get("Contents", ()):
                yield found["Key"]
