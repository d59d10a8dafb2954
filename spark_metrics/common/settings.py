"""Reads the settings of a streaming job from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from typing import Any

from masscomm.domain.time_limits import COUNTED_IDS_KEPT_S, DENIED_SCHEMA_RETRY_S
from masscomm.errors import Stop
from masscomm.integers import integer_or
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.registry_sign_in import SECRET_SETTING, RegistrySignIn

# The catalogs of the archive's table: tables in the metrics database, or AWS Glue.
JDBC, GLUE = "jdbc", "glue"
# The value of SPARK_MASTER if EMR submits the job: EMR then configures the session's resources.
EMR = "emr"
# How many messages of an endpoint and hour that succeeded at the first attempt the log of webhooks has.
WEBHOOK_SUCCESSES = 60
# A small JVM, because the broker, OpenSearch and the other servers run on the same machine. A cluster has its own
# options.
DEFAULT_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -Xss512k -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=96m"
    " -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30 -XX:-UsePerfData"
)


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The addresses of the servers, and the options of a stream, as each streaming job has them.

    Attributes:
        registry_url: The URL of the Confluent-compatible schema registry.
        registry_secret: The ARN of the secret with which the job signs in there; empty: the registry needs no sign-in.
        jars: Paths, separated by commas.
        max_offsets_per_trigger: The maximum number of records in a micro-batch, over all partitions.
        wait_s: How long a dependency may be down before the job ends, at the start and later.
        ready_file: A file that is written when the query runs.
    """

    bootstrap_servers: str
    registry_url: str
    registry_secret: str = ""
    jars: str = ""
    trigger_ms: int = 1000
    max_offsets_per_trigger: int = 200_000
    wait_s: float = 120.0
    # Two cores; each task has four attempts, as on a cluster.
    master: str = "local[2,4]"
    driver_memory: str = "512m"  # Spark rejects a heap below 450 MB
    java_options: str = DEFAULT_JAVA_OPTIONS
    ready_file: str = ""

    def registry(self) -> HttpSchemaRegistry:
        """Return a client of the schema registry."""
        return HttpSchemaRegistry(self.registry_url, sign_in=RegistrySignIn.with_secret(self.registry_secret))


@dataclass(frozen=True, kw_only=True)
class Settings(SessionSettings):
    """The settings of the metrics job.

    Attributes:
        database_url: A URL of libpq, postgresql://…
        denied_schema_retry_s: How long the archive asks again for a schema id that the registry denies.
        grace_s: The minimum time between the end of a bucket and its completeness.
        redelivery_window_s: How long record ids are stored; within this time a redelivery is not counted. At least
            COUNTED_IDS_KEPT_S, on which the replay of dead letters relies.
        views: Further tables, each as module:VARIABLE of a spark_metrics.counting.views.View. SPARK_VIEWS separates
            them by commas; `none` means no view, as does the variable's absence.
        recipient_log: Whether a row per recipient is stored (spark_metrics.counting.recipient_log).
        webhook_successes: How many messages of an endpoint and hour that succeeded at the first attempt the log of
            webhooks has (spark_metrics.counting.webhook_results).
        lanes: The number of lanes, each one transaction of an executor; 0: spark.sql.shuffle.partitions.
        archive_dir: The folder or URL (s3://…) of the archive; empty: no archive.
        archive_trigger_ms: The time between two appends to the archive.
        archive_catalog: `jdbc` (tables in the metrics database) or `glue`.
        archive_database: The catalog's name of the archive's database.
        categories_table: The table of the categories that operators have changed; `none`: nobody can change them.
    """

    database_url: str = field(repr=False)
    denied_schema_retry_s: float = DENIED_SCHEMA_RETRY_S
    grace_s: int = 30
    redelivery_window_s: int = COUNTED_IDS_KEPT_S
    views: tuple[str, ...] = ()
    recipient_log: bool = True
    webhook_successes: int = WEBHOOK_SUCCESSES
    lanes: int = 0
    archive_dir: str = ""
    archive_trigger_ms: int = 60_000
    archive_catalog: str = JDBC
    archive_database: str = "masscomm"
    fail_on_data_loss: bool = True
    categories_table: str = "categories"


_NAMES = {
    "bootstrap_servers": "KAFKA_BOOTSTRAP_SERVERS",
    "registry_url": "SCHEMA_REGISTRY_URL",
    "registry_secret": SECRET_SETTING,
    "database_url": "METRICS_DATABASE_URL",
    "categories_table": "CATEGORIES_TABLE",
}
_CHOICES = {"archive_catalog": (JDBC, GLUE)}
_LOWEST = {"redelivery_window_s": COUNTED_IDS_KEPT_S}  # guard: metrics.redelivery_window


def imported[T](variable: str, name: str, kind: type[T]) -> T:
    """Return the object that an environment variable names as module:VARIABLE. Raises Stop if there is none, or one of
    another type.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Stop(f"{variable} names {name}, which cannot be imported: {error}") from error
    if not isinstance(found, kind):
        raise Stop(f"{variable} names {name}, which is not a {kind.__module__}.{kind.__name__}")
    return found


def view_names(text: str) -> tuple[str, ...]:
    """Return the names in SPARK_VIEWS, which commas separate; no names for `none`."""
    return tuple(name.strip() for name in text.split(",")) if text not in ("", "none") else ()


def variable_of(setting: str) -> str:
    """Return the environment variable of a setting: SPARK_TRIGGER_MS of `trigger_ms`."""
    return _NAMES.get(setting, f"SPARK_{setting.upper()}")


def settings_from(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the metrics job. Raises Stop with the names of all variables that are missing or wrong."""
    return settings_of(Settings, environ)


def settings_of[S: SessionSettings](kind: type[S], environ: Mapping[str, str] = os.environ) -> S:
    """Return the settings of a job in environment variables. Raises Stop as settings_from does."""
    wrong: list[str] = []
    values: dict[str, Any] = {}
    for setting in fields(kind):
        name = variable_of(setting.name)
        text = environ.get(name, "")
        if not text:
            if setting.default is MISSING:
                wrong.append(f"{name} is not set")
        elif setting.name in _CHOICES and text not in _CHOICES[setting.name]:
            wrong.append(f"{name} must be {' or '.join(_CHOICES[setting.name])}, not {text!r}")
        elif setting.type is bool:
            values[setting.name] = text.lower() != "false"
        elif setting.type not in (int, float):
            values[setting.name] = view_names(text) if setting.name == "views" else text
        elif (number := integer_or(text, None, lowest=_LOWEST.get(setting.name, 1))) is not None:
            values[setting.name] = number
        else:
            wrong.append(f"{name} must be a whole number above {_LOWEST.get(setting.name, 1) - 1}, not {text!r}")
    if wrong:
        raise Stop("; ".join(wrong))
    return kind(**values)
