"""Erasure is killed before each of its commits while records are appended, and a recompute while its swap waits."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from local.devstack.config import ROOT
from local.devstack.service import base_environment
from local.devstack.services.spark import driver_options, spark_jars
from ops.erasure.person import ERASED_USER
from tests.support.spark.archived import NOW, a_send, an_outcome
from tests.support.spark.counted_stream import CountedStream
from tests.support.spark.metrics_job import wait_until
from tests.support.spark.session import PY4J_SOCKETS, Record, ToFrame

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings(PY4J_SOCKETS)]

TODAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
LATER = datetime.now(UTC) + timedelta(days=1)
# Days before today of the first hours that retention deletes.
DAYS = 20
LOCK = 460_299
ARCHIVE = "tests.support.spark.archive_command"
HOLD = f"""
create sequence catalog_commits;
create table held_commit (number bigint);
create function hold_commit() returns trigger language plpgsql as $$ begin
    if nextval('public.catalog_commits') = (select number from public.held_commit) then
        perform pg_advisory_xact_lock_shared({LOCK});
    end if;
    return null;
end $$;
create trigger hold_commit before update on archive_catalog.iceberg_tables
    for each statement execute function public.hold_commit();
"""  # noqa: S608 - our own number


class Commands:
    """Runs commands on an archive, each as a process, and holds one of their commits."""

    def __init__(self, stream: CountedStream, folder: Path) -> None:
        self._log = folder / "commands.log"
        self._environment = {
            **base_environment(),
            "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
            "SCHEMA_REGISTRY_URL": "http://127.0.0.1:1",
            "METRICS_DATABASE_URL": stream.settings.database_url,
            "SPARK_ARCHIVE_DIR": stream.settings.archive_dir,
            "SPARK_JARS": spark_jars(),
            "SPARK_SUBMIT_OPTS": driver_options(),
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
        }
        self._connection = psycopg.connect(stream.settings.database_url, autocommit=True)
        self._connection.execute(HOLD)
        self._connection.execute("select pg_advisory_lock(%s)", [LOCK])

    def close(self) -> None:
        self._connection.close()

    def hold(self, number: int | None) -> None:
        """Hold the catalog's commit with this number, counted from now on."""
        self._connection.execute("select setval('catalog_commits', 1, false)")
        self._connection.execute("delete from held_commit")
        self._connection.execute("insert into held_commit values (%s)", [number])

    @contextmanager
    def started(self, *arguments: object, module: str = ARCHIVE) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", module, *map(str, arguments)]
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, *arguments: object) -> None:
        """Run a command until its end, which must be a success."""
        self.hold(None)
        with self.started(*arguments) as process:
            assert process.wait() == 0, self._log.read_text()[-3000:]

    def held(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait until a commit of the process is held. Return the server's process id, or None if the command ended."""

        def look() -> tuple[int | None] | None:
            row = self._connection.execute(
                "select pid from pg_locks where locktype = 'advisory' and objid = %s and not granted"
                " and database = (select oid from pg_database where datname = current_database())",
                [LOCK],
            ).fetchone()
            if row is None and process.poll() is not None:
                return (None,)
            return row

        [pid] = wait_until("a commit that is held", look)
        assert pid is not None or process.returncode == 0, self._log.read_text()[-3000:]
        return pid

    def kill(self, process: subprocess.Popen[bytes], pid: int) -> None:
        """Kill the process and its JVM before the held commit."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._connection.execute("select pg_terminate_backend(%s)", [pid])
        gone = "select 1 from pg_stat_activity where pid = %s"
        wait_until("no server process", lambda: self._connection.execute(gone, [pid]).fetchone() is None or None)

    def release(self, pid: int) -> None:
        """Let the held commit go on."""
        self._connection.execute("select pg_advisory_unlock(%s)", [LOCK])
        waits = "select 1 from pg_locks where pid = %s and locktype = 'advisory'"
        wait_until("a released commit", lambda: self._connection.execute(waits, [pid]).fetchone() is None or None)
        self._connection.execute("select pg_advisory_lock(%s)", [LOCK])


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[CountedStream]:
    stream = CountedStream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


@pytest.fixture
def commands(stream: CountedStream, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(stream, tmp_path)
    yield commands
    commands.close()


def before(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


def test_killed_erasure_is_completed_by_the_next(stream: CountedStream, commands: Commands) -> None:
    outcomes: list[Record] = []

    def append() -> None:
        number = len(outcomes)
        outcomes.append(an_outcome(number, f"send {number}"))
        stream.archive(outcomes[-1])

    commits = 0
    while True:
        append()
        append()
        commands.hold(commits + 1)
        with commands.started("erase", 7, 2) as process:
            pid = commands.held(process)
            if pid is None:
                break
            commits += 1
            append()
            commands.kill(process, pid)
        assert sorted(_offsets(stream)) == list(range(len(outcomes)))
    assert commits == 2, "the update and the expiry"
    commands.hold(2)
    append()
    with commands.started("erase", 7, 2) as process:
        pid = commands.held(process)
        assert pid is not None
        # The files of the removed snapshots are deleted after this commit.
        commands.release(pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    commands.run("erase", 7, 2)
    assert sorted(_offsets(stream)) == list(range(len(outcomes)))
    assert stream.table.records().where(F.array_contains("user_ids", 2)).count() == 0
    # Maintenance deletes the files that a killed run has left, when they are three days old.
    folder = Path(stream.settings.archive_dir)
    aged = datetime.now(UTC).timestamp() - 4 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (aged, aged))
    commands.run("maintain", LATER.isoformat(), before(DAYS))
    files = [str(path) for path in folder.rglob("*.parquet")]
    assert stream.spark.read.parquet(*files).where(F.array_contains("user_ids", 2)).count() == 0
    assert sorted(_offsets(stream)) == list(range(len(outcomes)))
    stream.count(*outcomes)
    stream.sink.connected().execute("update recipient_log set user_id = %s where user_id = 2", [ERASED_USER])
    assert stream.differing() == 0


def test_killed_recompute_swaps_nothing(stream: CountedStream, commands: Commands) -> None:
    stream.both(a_send(0), an_outcome(0, "send 0"))
    connection = stream.sink.connected()
    connection.execute("update counts_day set count_total = 9")
    connection.execute("delete from send_totals")
    waiting = (
        "select pid from pg_stat_activity"
        " where application_name = 'spark_metrics recompute' and wait_event_type = 'Lock'"
    )
    with (
        psycopg.connect(stream.settings.database_url) as other,
        commands.started("--swap", module="spark_metrics.recompute") as process,
    ):
        other.execute("select from stream_status for update")
        [pid] = wait_until("a swap that waits", lambda: connection.execute(waiting).fetchone())
        commands.kill(process, pid)
    assert connection.execute("select distinct count_total from counts_day").fetchall() == [(9,)]
    with commands.started("--swap", module="spark_metrics.recompute") as process:
        assert process.wait() == 1, "rows differed, and were swapped"
    left = "select count(*) from pg_class where relnamespace = 'recompute'::regnamespace and relkind = 'r'"
    assert connection.execute(left).fetchone() == (0,)
    assert stream.differing() == 0


def _offsets(stream: CountedStream) -> list[int]:
    return [row[0] for row in stream.table.records().select("kafka_offset").collect()]
