"""An empty metrics database of its own, for benchmarks of its tables."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from devstack.config import StackConfig
from devstack.stack import Stack
from tests.support.servers.metrics_database import metrics_database


@contextmanager
def metrics_connection() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Start Postgres, create the tables, and yield a connection with autocommit."""
    with tempfile.TemporaryDirectory() as folder:
        stack = StackConfig.on_free_ports(Path(folder))
        with (
            Stack(stack, ["postgres"]),
            metrics_database(stack) as database,
            psycopg.connect(database, autocommit=True) as connection,
        ):
            yield connection
