"""The archive in AWS: Glue's catalog and files in S3, with the jars that a deployment ships and moto's services."""

import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from infra.cdk.resources.spark_run import shipped_jars
from local.devstack.config import ROOT
from local.devstack.service import base_environment
from tests.support.servers.moto import served_by_moto

REGION = "eu-central-1"
COLUMNS = "topic string, partition int, kafka_offset bigint, at timestamp"
# Two appends, the second by a writer that has read the end of the first.
APPENDING = f"""
from spark_metrics.archive.iceberg import MarkedTable
from spark_metrics.common.session import spark_session
from spark_metrics.common.settings import GLUE, Settings

settings = Settings(
    bootstrap_servers="", registry_url="", database_url="", jars={{jars!r}},
    archive_dir="s3://archive/metrics", archive_catalog=GLUE, archive_database="masscomm_dev",
)
spark = spark_session(settings)
table = MarkedTable(spark, settings, "records", "{COLUMNS}", partition="hours(at)")
table.make()
for offset in (1, 2):
    rows = spark.sql(f"select 'sends' as topic, 0 as partition, {{{{offset}}}}L as kafka_offset, now() as at")
    table.append(rows, table.appended(), {{{{("sends", 0): offset + 1}}}})
print(table.appended().offsets, spark.table(table.name).where("at > '1970-01-01'").count())
"""


@pytest.mark.nightly
def test_archive_commits_to_glue_and_s3(tmp_path: Path) -> None:
    jars = ",".join(map(str, shipped_jars()))
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": REGION}
    with mock_aws(), served_by_moto("glue", REGION) as glue, served_by_moto("s3", REGION) as s3:
        boto3.client("s3", REGION).create_bucket(
            Bucket="archive", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        boto3.client("glue", REGION).create_database(DatabaseInput={"Name": "masscomm_dev"})
        done = subprocess.run(
            [sys.executable, "-c", APPENDING.format(jars=jars)],
            cwd=ROOT,
            env={
                **base_environment(),
                **keys,
                "SPARK_LOCAL_DIRS": str(tmp_path),
                "AWS_ENDPOINT_URL_GLUE": glue,
                "AWS_ENDPOINT_URL_S3": s3,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.stdout.splitlines()[-1:] == ["{('sends', 0): 3} 2"], done.stderr[-3000:]
        table = boto3.client("glue", REGION).get_table(DatabaseName="masscomm_dev", Name="records")["Table"]
        assert table["Parameters"]["table_type"] == "ICEBERG"
        files = boto3.client("s3", REGION).list_objects_v2(Bucket="archive", Prefix="metrics/iceberg/")["Contents"]
        assert len([each for each in files if each["Key"].endswith(".parquet")]) >= 2
