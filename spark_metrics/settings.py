"""Reads the job's settings from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.errors import Stop

# The catalogs of the archive's table: tables in the metrics database, or AWS Glue.
JDBC, GLUE = "jdbc", "glue"
# The value of SPARK_MASTER if EMR submits the job: EMR then configures the session's resources.
EMR = "emr"
# A small JVM, because the broker, OpenSearch and the other servers run on the same machine. A cluster has its own
# options.
DEFAULT_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -Xss512k -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=96m"
    " -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30 -XX:-UsePerfData"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The addresses of the servers, and the options of the stream.

    Attributes:
        database_url: A URL of libpq, postgresql://…
        registry_url: The URL of the Confluent-compatible schema registry.
        jars: Paths, separated by commas.
        max_offsets_per_trigger: The maximum number of records in a micro-batch, over all partitions.
        wait_s: How long a dependency may be down before the job ends, at the start and later.
        denied_schema_retry_s: How long a schema id that the registry denies is retried before its records are
            quarantined.
        far_future_s: A record is quarantined if its timestamp is more than this after its production.
        grace_s: The minimum time between the end of a bucket and its completeness.
        redelivery_window_s: How long record ids are stored; within this time a redelivery is not counted.
        views: Further tables, each as module:VARIABLE of a spark_metrics.views.View. SPARK_VIEWS separates them by
            commas; `none` means no view, as does the variable's absence.
        recipient_log: Whether a row per recipient is stored (spark_metrics.recipient_log).
        lanes: The number of lanes, each one transaction of an executor; 0: spark.sql.shuffle.partitions.
        archive_dir: The folder or URL (s3://…) of the archive; empty: no archive.
        archive_trigger_ms: The time between two appends to the archive.
        archive_catalog: `jdbc` (tables in the metrics database) or `glue`.
        archive_database: The catalog's name of the archive's database.
        ready_file: A file that is written when the query runs.
    """

    bootstrap_servers: str
    registry_url: str
    database_url: str = field(repr=False)
    jars: str = ""
    trigger_ms: int = 1000
    max_offsets_per_trigger: int = 200_000
    wait_s: float = 120.0
    denied_schema_retry_s: float = DENIED_SCHEMA_RETRY_S
    far_future_s: int = FAR_FUTURE_MS // 1000
    grace_s: int = 30
    redelivery_window_s: int = 7 * 86_400
    views: tuple[str, ...] = ()
    recipient_log: bool = True
    lanes: int = 0
    archive_dir: str = ""
    archive_trigger_ms: int = 60_000
    archive_catalog: str = JDBC
    archive_database: str = "masscomm"
    # Two cores; each task has four attempts, as on a cluster.
    master: str = "local[2,4]"
    driver_memory: str = "512m"  # Spark rejects a heap below 450 MB
    java_options: str = DEFAULT_JAVA_OPTIONS
    fail_on_data_loss: bool = True
    ready_file: str = ""


def view_names(text: str) -> tuple[str, ...]:
    """Return the names in SPARK_VIEWS, which commas separate; no names for `none`."""
    names = [name.strip() for name in text.split(",")] if text not in ("", "none") else []
    # Earlier versions maintained this view; the metrics API now sums the minutes instead.
    return tuple(name for name in names if name != "spark_metrics.trending:TRENDING")


def settings_from(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in environment variables.

    Raises Stop with the names of all variables that are missing or not a number.
    """
    wrong = []

    def text(name: str, default: str | None = None) -> str:
        value = environ.get(name) or default
        if value is None:
            wrong.append(f"{name} is not set")
        return value or ""

    def number(name: str, default: int) -> int:
        value = environ.get(name) or str(default)
        if not value.isdecimal() or int(value) == 0:
            wrong.append(f"{name} must be a whole number above 0, not {value!r}")
            return default
        return int(value)

    def choice(name: str, *choices: str) -> str:
        value = environ.get(name) or choices[0]
        if value not in choices:
            wrong.append(f"{name} must be {' or '.join(choices)}, not {value!r}")
        return value

    settings = Settings(
        bootstrap_servers=text("KAFKA_BOOTSTRAP_SERVERS"),
        registry_url=text("SCHEMA_REGISTRY_URL"),
        database_url=text("METRICS_DATABASE_URL"),
        jars=text("SPARK_JARS", ""),
        trigger_ms=number("SPARK_TRIGGER_MS", Settings.trigger_ms),
        max_offsets_per_trigger=number("SPARK_MAX_OFFSETS_PER_TRIGGER", Settings.max_offsets_per_trigger),
        wait_s=number("SPARK_WAIT_S", int(Settings.wait_s)),
        denied_schema_retry_s=number("SPARK_DENIED_SCHEMA_RETRY_S", int(Settings.denied_schema_retry_s)),
        far_future_s=number("SPARK_FAR_FUTURE_S", Settings.far_future_s),
        grace_s=number("SPARK_GRACE_S", Settings.grace_s),
        redelivery_window_s=number("SPARK_REDELIVERY_WINDOW_S", Settings.redelivery_window_s),
        views=view_names(text("SPARK_VIEWS", "none")),
        recipient_log=text("SPARK_RECIPIENT_LOG", "true").lower() != "false",
        lanes=number("SPARK_LANES", Settings.lanes) if environ.get("SPARK_LANES") else Settings.lanes,
        archive_dir=text("SPARK_ARCHIVE_DIR", ""),
        archive_trigger_ms=number("SPARK_ARCHIVE_TRIGGER_MS", Settings.archive_trigger_ms),
        archive_catalog=choice("SPARK_ARCHIVE_CATALOG", JDBC, GLUE),
        archive_database=text("SPARK_ARCHIVE_DATABASE", Settings.archive_database),
        master=text("SPARK_MASTER", Settings.master),
        driver_memory=text("SPARK_DRIVER_MEMORY", Settings.driver_memory),
        java_options=text("SPARK_JAVA_OPTIONS", Settings.java_options),
        fail_on_data_loss=text("SPARK_FAIL_ON_DATA_LOSS", "true").lower() != "false",
        ready_file=text("SPARK_READY_FILE", ""),
    )
    if wrong:
        raise Stop("; ".join(wrong))
    return settings
