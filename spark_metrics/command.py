"""Runs a command of the metrics job: its log, its Spark session and its exit status."""

import logging
from collections.abc import Callable

import psycopg
from pyspark.sql import SparkSession

from masscomm.errors import MasscommError
from masscomm.untrusted import mask_root_logger
from spark_metrics.archive_table import spark_errors
from spark_metrics.session import spark_session
from spark_metrics.settings import Settings, settings_from

_log = logging.getLogger("spark_metrics")


def configure_logging(level: int = logging.INFO) -> None:
    """Write log lines to the standard error, without secrets and without those of py4j's calls."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
    logging.getLogger("py4j").setLevel(logging.WARNING)


def exit_status(work: Callable[[], int], *, failed: int = 2) -> int:
    """Return the result of `work`; after an error of a dependency or a setting, log it and return `failed`."""
    try:
        return work()
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return failed


def exit_status_with_spark(work: Callable[[Settings, SparkSession], int]) -> int:
    """Return the result of `work`, as exit_status does, which gets the job's settings and a new session of Spark."""

    def with_spark() -> int:
        settings = settings_from()
        spark = spark_session(settings)
        try:
            with spark_errors():
                return work(settings, spark)
        finally:
            spark.stop()

    return exit_status(with_spark)
