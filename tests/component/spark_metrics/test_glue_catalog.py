"""The archive in AWS: Glue's catalog and files in S3, with the jars that a deployment ships and moto's services."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
import requests
from moto import mock_aws

from infra.cdk.resources.spark_run import shipped_jars
from local.devstack.config import ROOT
from local.devstack.service import base_environment

REGION = "eu-central-1"
HOSTS = {"glue": f"glue.{REGION}.amazonaws.com", "s3": f"s3.{REGION}.amazonaws.com"}
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


@contextmanager
def _moto(service: str) -> Iterator[str]:
    """Yield the address of a server that passes requests on to moto, which answers in this process."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
            answer = requests.request(
                self.command,
                f"https://{HOSTS[service]}{self.path}",
                headers=headers,
                data=body,
                timeout=10,
                stream=True,
            )
            # The answer to HEAD has the length of a body that it lacks.
            content = b"" if self.command == "HEAD" else answer.content
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = answer.headers.get("content-length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("content-length", length)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.nightly
def test_archive_commits_to_glue_and_s3(tmp_path: Path) -> None:
    jars = ",".join(map(str, shipped_jars()))
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": REGION}
    with mock_aws(), _moto("glue") as glue, _moto("s3") as s3:
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
