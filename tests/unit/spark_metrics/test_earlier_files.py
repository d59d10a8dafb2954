"""The Parquet files of an earlier archive are deleted in a folder as in S3."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.devstack.service import AWS_CREDENTIALS
from spark_metrics.move_archive import delete_batches, mark_of

REGION = "eu-central-1"
BATCHES = ["date=2026-11-20/hour=23/batch=9", "date=2026-11-21/hour=00/batch=10"]
FILES = [*(f"{batch}/part-{n}.parquet" for batch in BATCHES for n in range(2)), "iceberg/data/one.parquet"]

# Writes files, and returns the archive's address and a function that returns the files that exist.
type Archive = Callable[[dict[str, bytes]], tuple[str, Callable[[], set[str]]]]


@pytest.fixture(params=["folder", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    if request.param == "folder":

        def in_folder(contents: dict[str, bytes]) -> tuple[str, Callable[[], set[str]]]:
            for name, content in contents.items():
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_bytes(content)
            return str(tmp_path), lambda: {
                str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()
            }

        yield in_folder
        return
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", REGION)
    with mock_aws():
        client: Any = boto3.client("s3", region_name=REGION)
        client.create_bucket(Bucket="metrics", CreateBucketConfiguration={"LocationConstraint": REGION})

        def in_s3(contents: dict[str, bytes]) -> tuple[str, Callable[[], set[str]]]:
            for name, content in contents.items():
                client.put_object(Bucket="metrics", Key=f"an/archive/{name}", Body=content)
            return "s3://metrics/an/archive", lambda: {
                each["Key"].removeprefix("an/archive/")
                for each in client.list_objects_v2(Bucket="metrics").get("Contents", [])
            }

        yield in_s3


def test_only_the_batches_are_deleted(archive: Archive) -> None:
    address, left = archive(dict.fromkeys(FILES, b"x") | {"_archive_id": b"a mark\n"})
    assert mark_of(address) == "a mark"
    for _ in range(2):
        delete_batches(address)
        assert left() == {"_archive_id", "iceberg/data/one.parquet"}


def test_archive_without_a_mark_returns_no_mark(archive: Archive) -> None:
    address, _ = archive(dict.fromkeys(FILES, b"x"))
    assert mark_of(address) is None
