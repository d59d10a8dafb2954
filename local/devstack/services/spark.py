"""The Spark streaming job that computes metrics from records."""

import os
import subprocess
import sys
from pathlib import Path

from local.devstack.config import ROOT, StackConfig
from local.devstack.service import Service, base_environment, function_environment
from local.devstack.setup import JARS, SPARK_ARCHIVE
from local.emulators.local import LOOPBACK

DRIVER_ARCHIVE = Path(SPARK_ARCHIVE, "driver.jsa")
# A JVM with other jars ignores the archive, and would log a warning.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def driver_options() -> str:
    """Return the JVM options of a driver, for SPARK_SUBMIT_OPTS: the serial collector, which needs least memory, and
    the archive of its classes, with which a start takes half of the processor time.
    """
    archive = f" -XX:SharedArchiveFile={DRIVER_ARCHIVE} {QUIET}" if DRIVER_ARCHIVE.exists() else ""
    return f"-XX:+UseSerialGC{archive}"


def spark_jars() -> str:
    """Return the paths of the jars that PySpark needs, separated by commas. MASSCOMM_SPARK_JARS names the folder with
    the jars of another version of Spark.
    """
    folder = Path(os.environ.get("MASSCOMM_SPARK_JARS") or Path(JARS, "spark"))
    return ",".join(sorted(map(str, folder.glob("*.jar"))))


def spark_environment(config: StackConfig) -> dict[str, str]:
    """Return the environment of the job's Spark session: our jars, the loopback address, folders inside the state
    folder.
    """
    return {
        "SPARK_JARS": spark_jars(),
        "SPARK_SUBMIT_OPTS": driver_options(),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(config.data("spark") / "tmp"),
        "SPARK_ARCHIVE_DIR": str(config.archive_dir),
        "SPARK_ARCHIVE_TRIGGER_MS": "10000",
        "SPARK_READY_FILE": str(config.data("spark") / "ready"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def run_module(config: StackConfig, module: str, *arguments: str, standard_input: str = "") -> int:
    """Run a command of the metrics job on running servers; return its exit status."""
    environment = {**base_environment(), **function_environment(config), **spark_environment(config)}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, input=standard_input, text=True, check=False).returncode


def service(config: StackConfig) -> Service:
    """Return the specification of the job `python -m spark_metrics.job`; it is ready once the file at
    SPARK_READY_FILE exists.
    """
    marker = config.data("spark") / "ready"
    return Service(
        name="spark",
        command=[sys.executable, "-m", "spark_metrics.job"],
        environment={**function_environment(config), **spark_environment(config)},
        # The job starts although Kafka and the registry are not ready, because it starts slowly and waits for them
        # itself.
        depends_on=("postgres", "tables"),
        outlived_by=("kafka", "registry"),
        address="(no port)",
        prepare=lambda _: marker.unlink(missing_ok=True),
        ready=marker.exists,
    )
