"""The program of a task on Fargate runs Kafka Connect with its connectors, and ends when one of them has failed."""

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from local.devstack.service import jars, java
from local.devstack.services.connect import PROPERTIES
from local.devstack.setup import CONNECT_PLUGIN, CONNECT_TASK
from local.emulators.local import LOOPBACK
from masscomm.cdc.debezium import debezium_config, largest_record

# The JVM of a worker starts in ten seconds.
pytestmark = pytest.mark.nightly


def _run(kafka: StackConfig, folder: Path, connectors: dict[str, dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    """Run the program until it ends."""
    with socket.create_server((LOOPBACK, 0)) as free:
        name, port = f"test.{uuid4()}", free.getsockname()[1]
    properties = PROPERTIES.format(
        bootstrap=kafka.kafka_bootstrap,
        host=LOOPBACK,
        port=port,
        plugins=CONNECT_PLUGIN,
        largest_record=largest_record(),
    )
    properties = re.sub(r"(\.topic|group\.id)=.*", rf"\1={name}.\g<1>", properties).replace("..", ".")
    command = java("-cp", f"{jars('kafka')}:{CONNECT_TASK}/*", heap_mb=256)
    return subprocess.run(
        [*command, "masscomm.connect.ConnectTask"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "CONNECT_PROPERTIES": properties,
            "CONNECTORS": json.dumps(connectors),
            "CONNECT_URL": f"http://{LOOPBACK}:{port}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _debezium(url: str, **changes: str) -> dict[str, str]:
    """Return the configuration of a connector to the database."""
    database = urlsplit(url)
    return debezium_config("test") | {
        "database.hostname": str(database.hostname),
        "database.port": str(database.port),
        "database.user": str(database.username),
        "database.password": str(database.password or ""),
        "database.dbname": database.path.removeprefix("/"),
        **changes,
    }


def test_task_ends_when_its_connector_has_failed(kafka: StackConfig, postgres: StackConfig, tmp_path: Path) -> None:
    # The task of the connector fails when it finds no publication.
    connector = _debezium(postgres.database_url("monolith"), **{"publication.autocreate.mode": "disabled"})
    done = _run(kafka, tmp_path, {"changes": connector})
    assert (done.returncode, "changes has failed" in done.stderr) == (1, True), done.stderr[-2000:]


def test_task_ends_when_a_connector_is_refused(kafka: StackConfig, tmp_path: Path) -> None:
    done = _run(kafka, tmp_path, {"changes": _debezium("postgresql://none:none@127.0.0.1:1/none")})
    assert done.returncode == 1
    assert "Kafka Connect refuses the configuration of changes" in done.stderr, done.stderr[-2000:]
