"""The job's settings, from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.errors import Stop

# SPARK_MASTER if EMR submits the job: the session exists, and its resources are not configured here.
EMR = "emr"
# Small on purpose, to run on one machine with the broker, OpenSearch and the other servers. A cluster has its own
# options.
DEFAULT_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -Xss512k -XX:TieredStopAtLevel=1 -XX:-DontCompileHugeMethods -XX:ReservedCodeCacheSize=96m"
    " -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30 -XX:-UsePerfData"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Addresses of the servers, and options of the stream.

    Attributes:
        database_url: in libpq's form, postgresql://…
        registry_url: the registry's Confluent API.
        jars: paths, comma-separated.
        max_offsets_per_trigger: records a micro-batch, over all partitions.
        wait_s: maximum time that a dependency may be down, at the start and later.
        denied_schema_retry_s: time for which a schema that the registry denies is retried before its records are
            quarantined.
        far_future_s: a timestamp later than this after the record's production is quarantined.
        grace_s: minimum time after its end until a bucket is complete.
        redelivery_window_s: time for which record ids are remembered, so that the same record produced again adds
            nothing.
        views: further tables, each module:VARIABLE of a spark_metrics.views.View (SPARK_VIEWS: comma-separated, or
            none).
        rehearse: whether generated batches are counted and undone before the stream begins, so that the first real ones
            are compiled.
        recipient_log: whether a row for each recipient is stored (spark_metrics.recipient_log).
        archive_dir: the archive's location (a folder, s3://…); empty: no archive.
        ready_file: written when the query runs.
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
    views: tuple[str, ...] = ("spark_metrics.trending:TRENDING",)
    recipient_log: bool = False
    rehearse: bool = True
    archive_dir: str = ""
    master: str = "local[2]"
    driver_memory: str = "512m"  # Spark rejects a heap below 450 MB
    java_options: str = DEFAULT_JAVA_OPTIONS
    fail_on_data_loss: bool = True
    ready_file: str = ""


def view_names(text: str) -> tuple[str, ...]:
    """The comma-separated names of SPARK_VIEWS; "none" is empty."""
    return tuple(name.strip() for name in text.split(",")) if text != "none" else ()


def settings_from(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of an environment.

    Errors: Stop, with the name of every variable that is missing or not a number.
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
        views=view_names(text("SPARK_VIEWS", ",".join(Settings.views))),
        recipient_log=text("SPARK_RECIPIENT_LOG", "false").lower() == "true",
        rehearse=text("SPARK_REHEARSE", "true").lower() != "false",
        archive_dir=text("SPARK_ARCHIVE_DIR", ""),
        master=text("SPARK_MASTER", Settings.master),
        driver_memory=text("SPARK_DRIVER_MEMORY", Settings.driver_memory),
        java_options=text("SPARK_JAVA_OPTIONS", Settings.java_options),
        fail_on_data_loss=text("SPARK_FAIL_ON_DATA_LOSS", "true").lower() != "false",
        ready_file=text("SPARK_READY_FILE", ""),
    )
    if wrong:
        raise Stop("; ".join(wrong))
    return settings
