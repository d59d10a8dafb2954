"""The Parquet files of an earlier version's archive, in a folder or below s3://bucket/prefix
(spark_metrics.move_archive).
"""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from masscomm.aws import endpoint

_MARK = "_archive_id"
_DAYS = "date="


def mark_of(archive: str) -> str | None:
    """Return the archive's mark; None if it has none."""
    if archive.startswith("s3://"):
        found = [each.get()["Body"].read() for each in _objects(archive, _MARK)]
    else:
        found = [path.read_bytes() for path in Path(archive).glob(_MARK)]
    return found[0].decode().strip() if found else None


def delete_batches(archive: str) -> None:
    """Delete the files of all batches. Raises OSError if a file cannot be deleted."""
    if not archive.startswith("s3://"):
        for day in Path(archive).glob(f"{_DAYS}*"):
            shutil.rmtree(day)
        return
    failed = [error for answer in _objects(archive, _DAYS).delete() for error in answer.get("Errors", ())]
    if failed:
        raise OSError(f"{len(failed)} files cannot be deleted; the first: {failed[0]}")


def _objects(archive: str, beginning: str) -> Any:
    """Return the objects in S3 whose names in the archive begin so."""
    import boto3

    parts = urlsplit(archive)
    session: Any = boto3.Session(region_name=endpoint.region())
    prefix = f"{parts.path.strip('/')}/{beginning}".removeprefix("/")
    return session.resource("s3").Bucket(parts.netloc).objects.filter(Prefix=prefix)
