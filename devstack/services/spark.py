"""The Spark streaming job that turns records into metrics."""

import sys
from pathlib import Path

from devstack.config import StackConfig
from devstack.service import Service, function_environment
from devstack.setup import JARS
from emulators.local import LOOPBACK


def spark_environment(config: StackConfig) -> dict[str, str]:
    """What the job reads about its session: our jars, the loopback address, folders inside the state folder."""
    return {
        "SPARK_JARS": ",".join(sorted(str(path) for path in Path(JARS, "spark").glob("*.jar"))),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(config.data("spark") / "tmp"),
        "SPARK_RECIPIENT_LOG": "true",
        "SPARK_ARCHIVE_DIR": str(config.archive_dir),
        "SPARK_READY_FILE": str(config.data("spark") / "ready"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def service(config: StackConfig) -> Service:
    """`python -m spark_metrics.job`; ready when it has made the file that SPARK_READY_FILE names."""
    marker = config.data("spark") / "ready"
    return Service(
        name="spark",
        command=[sys.executable, "-m", "spark_metrics.job"],
        # A rehearsal would take longer than all the rest of the start: here the first numbers may come late instead.
        environment={**function_environment(config), **spark_environment(config), "SPARK_REHEARSE": "false"},
        # It takes long to start and waits for the rest by itself.
        depends_on=("postgres", "tables"),
        outlived_by=("kafka", "registry"),
        address="(listens nowhere)",
        prepare=lambda _: marker.unlink(missing_ok=True),
        ready=marker.exists,
    )
