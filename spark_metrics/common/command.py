"""Runs a command of the metrics job: its log, its Spark session and its exit status."""

import argparse
import logging
import signal
from collections.abc import Callable
from typing import Any, Protocol

import psycopg
from pyspark.sql import SparkSession

from masscomm.errors import MasscommError
from masscomm.observability import metrics
from masscomm.observability.metric_names import DAILY_RUNS
from masscomm.untrusted import mask_root_logger
from spark_metrics.common.session import spark_errors, spark_session
from spark_metrics.common.settings import Settings, settings_from

_log = logging.getLogger("spark_metrics")


def exit_status(
    work: Callable[[], int], *, failed: int = 2, level: int = logging.INFO, daily_run: str | None = None
) -> int:
    """Return the result of `work`; after an error of a dependency or a setting, log it and return `failed`.

    Args:
        level: The lowest level of the lines that are logged.
        daily_run: The name in DAILY_RUNS of the metric that says that the work is done.
    """
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        status = work()
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return failed
    if daily_run is not None:
        metrics.add(DAILY_RUNS[daily_run])
        metrics.write("spark_metrics")
    return status


def exit_status_with_spark(work: Callable[[Settings, SparkSession], int], **options: Any) -> int:
    """Return the result of `work`, as exit_status does, which gets the job's settings and a new session of Spark."""

    def with_spark() -> int:
        settings = settings_from()
        spark = spark_session(settings)
        try:
            with spark_errors():
                return work(settings, spark)
        finally:
            spark.stop()

    return exit_status(with_spark, **options)


class StreamingJob(Protocol):
    """A job that runs until it is stopped or, with --available-now, has read the topics to their ends."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


def job_status(create: Callable[[bool], StreamingJob]) -> int:
    """Run a streaming job until its end, SIGTERM or Ctrl-C, and return the exit status of its process.

    Args:
        create: Returns the job; the argument is whether it ends once it has read the topics.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--available-now", action="store_true", help="read to the present ends of the topics, and end")
    available_now = parser.parse_args().available_now

    def work() -> int:
        job = create(available_now)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: job.stop())
        job.run()
        return 0

    return exit_status(work, failed=1)
