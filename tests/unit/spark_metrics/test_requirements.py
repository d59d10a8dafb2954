"""The job's requirements are the packages that it imports."""

import re
import subprocess
import sys
from importlib import metadata

import pytest

from local.devstack.config import ROOT

# Spark installs these packages on the cluster.
THERE = {"pyspark", "py4j", "psutil"}
LISTED = re.compile(r"^([a-z0-9_.-]+)==", re.MULTILINE)


@pytest.mark.parametrize("module", ["counting.lane_merge", "job", "recompute", "retention"])
def test_imported_packages_are_in_the_jobs_requirements(module: str) -> None:
    script = f"import sys, spark_metrics.{module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    modules = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    packages = metadata.packages_distributions()
    imported = {_normalised(package) for name in modules for package in packages.get(name, [])}
    listed = set(map(_normalised, LISTED.findall((ROOT / "requirements" / "job.txt").read_text())))
    assert imported - listed - THERE - {"masscomm"} == set()


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
