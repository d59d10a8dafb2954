import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from local.devstack.config import StackConfig
from tests.support.servers.localstack_client import localstack_client
from tests.support.servers.opensearch_client import TestClient


def dumps(config: StackConfig) -> dict[str, str]:
    """Return the text of every document, item, row and file, by store."""
    return {
        "OpenSearch": "\n".join(_documents(config)),
        "DynamoDB": "\n".join(_items(config)),
        "Postgres": "\n".join(_rows(config)),
        "archive": "\n".join(_cells(config.archive_dir)),
    }


def _documents(config: StackConfig) -> Iterator[str]:
    client = TestClient(config.opensearch_url, timeout_s=60)
    client.indices.refresh()
    body = {"size": 5_000, "query": {"match_all": {}}, "sort": ["_doc"]}
    answer = client.search(index="*", body=body, scroll="1m")
    while hits := answer["hits"]["hits"]:
        yield json.dumps(hits, ensure_ascii=False)
        answer = client.request("POST", "_search/scroll", {"scroll": "1m", "scroll_id": answer["_scroll_id"]})
    client.close()


def _items(config: StackConfig) -> Iterator[str]:
    client = localstack_client(config.aws_url, "dynamodb")
    for table in client.list_tables()["TableNames"]:
        for page in client.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                yield repr(item)
                for value in item.values():
                    for raw in value.values():
                        if isinstance(raw, bytes):
                            yield raw.decode("latin-1")
                            # A value may be compressed; a part of a larger value cannot be decompressed alone.
                            with suppress(zlib.error):
                                yield zlib.decompress(raw).decode("latin-1")


def _rows(config: StackConfig) -> Iterator[str]:
    with psycopg.connect(config.database_url("metrics")) as connection:
        found = connection.execute("select tablename from pg_tables where schemaname = 'public' order by 1")
        for (table,) in found.fetchall():
            for row in connection.execute(sql.SQL("select row::text from {} as row").format(sql.Identifier(table))):
                yield f"{table} {row}"


def _cells(folder: Path) -> Iterator[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    yield from (path.read_bytes().decode("latin-1") for path in files)
    tables = [str(path) for path in files if path.suffix == ".parquet"]
    # Run in another process, because this one may already have a Spark session.
    command = [sys.executable, "-c", _READ]
    yield subprocess.run(command, input=json.dumps(tables), capture_output=True, text=True, check=True).stdout


_READ = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for path in json.load(sys.stdin):
    for row in spark.read.parquet(path).collect():
        print(row.asDict(recursive=True))
"""
