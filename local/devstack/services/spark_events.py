"""The Spark streaming job that makes events of the organisation's own topics. It runs only if it is configured."""

import sys
from pathlib import Path

from local.devstack.config import StackConfig
from local.devstack.service import Service, function_environment
from local.devstack.services.spark import spark_environment


def service(config: StackConfig, sources: Path) -> Service:
    """Return the specification of the job `python -m spark_events.job`, which reads the topics of a file."""
    folder = config.data("spark_events")
    marker = folder / "ready"
    return Service(
        name="spark_events",
        command=[sys.executable, "-m", "spark_events.job"],
        environment={
            **function_environment(config),
            **spark_environment(config),
            "SPARK_LOCAL_DIRS": str(folder / "tmp"),
            "SPARK_READY_FILE": str(marker),
            "SPARK_EVENT_SOURCES": str(sources),
        },
        depends_on=("topics", "schemas"),
        address="(no port)",
        prepare=lambda _: marker.unlink(missing_ok=True),
        ready=marker.exists,
    )
