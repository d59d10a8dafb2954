"""The job as a process for tests: start, wait, kill, and recompute from its archive."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from local.devstack.config import ROOT, StackConfig
from local.devstack.service import base_environment, function_environment
from local.devstack.services.spark import spark_environment

WAIT_S = 420  # on a busy machine the job takes a minute to start, and a recomputation three minutes


def wait_until[T](condition: str, look: Callable[[], T | None], job: "JobProcess | None" = None) -> T:
    """Wait until `look` returns a value, and return it. Fails with the job's log after WAIT_S or if the job ends."""
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        log = job.log.read_text()[-3000:] if job else ""
        if job and job.process.poll() is not None:
            pytest.fail(f"the job ended with status {job.process.returncode} before {condition}:\n{log}")
        if time.monotonic() > deadline:
            pytest.fail(f"waited {WAIT_S} s for {condition}:\n{log}")
        time.sleep(0.25)
    return found


@dataclass
class JobProcess:
    """The process of a streaming job."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """Send SIGKILL to the process and its JVM."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @classmethod
    def started(cls, module: str, environment: dict[str, str], log: Path, *arguments: str) -> "JobProcess":
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return cls(process, log)


@dataclass
class Job(JobProcess):
    database: str
    environment: dict[str, str]


def recompute(job: Job, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_metrics.recompute", *arguments],
        cwd=ROOT,
        env={**job.environment, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def launch(config: StackConfig, database: str, folder: Path, log: Path, *arguments: str, **environment: str) -> Job:
    """Start the job on a database, with its archive in a folder; all other settings are the devstack's or given."""
    chosen = {
        **base_environment(),
        **function_environment(config),
        **spark_environment(config),
        "METRICS_DATABASE_URL": database,
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_ARCHIVE_DIR": str(folder / "archive"),
        "SPARK_ARCHIVE_TRIGGER_MS": "5000",
        "CATEGORIES_TABLE": "none",
        **environment,
    }
    started = JobProcess.started("spark_metrics.job", chosen, log, *arguments)
    return Job(started.process, log, database, chosen)


type StartJob = Callable[..., Job]


@contextmanager
def jobs_on(config: StackConfig, database: str, folder: Path) -> Iterator[StartJob]:
    """Start jobs on a database, with archive and logs in a folder; those still running at the end are killed."""
    jobs: list[Job] = []

    def start(*arguments: str, **environment: str) -> Job:
        here = {
            "SPARK_READY_FILE": str(folder / f"ready-{len(jobs)}"),
            "SPARK_TRIGGER_MS": "200",
            "SPARK_DENIED_SCHEMA_RETRY_S": "1",
        }
        jobs.append(
            launch(config, database, folder, folder / f"job-{len(jobs)}.log", *arguments, **(here | environment))
        )
        return jobs[-1]

    try:
        yield start
    finally:
        for job in jobs:
            if job.process.poll() is None:
                job.kill()


def query_value(database: str, query: str) -> Any:
    with psycopg.connect(database) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def await_watermark(job: Job, moment: float) -> None:
    """Wait until the watermark has passed a time: every record that was in the topics then is counted."""

    def passed() -> bool:
        try:
            return bool(
                (query_value(job.database, "select extract(epoch from watermark) from stream_watermark") or 0) > moment
            )
        except psycopg.OperationalError:
            return False

    wait_until("the watermark", passed, job)
