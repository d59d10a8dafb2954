"""`masscomm recompute-check`: compare the served metrics with the archive and the topics, on this machine's data."""

import subprocess
import sys

from devstack.config import ROOT, StackConfig
from devstack.handle import RunningStack
from devstack.service import base_environment, function_environment
from devstack.services.spark import spark_environment
from devstack.stack import Stack
from devstack.state import NotRunningError

# For the metrics' rows, the records' schemas, and the topics to compare the archive with.
_SERVERS = ("postgres", "registry", "kafka")


def recompute_check(config: StackConfig) -> int:
    """Run spark_metrics.recompute over all records; returns its exit status (0: no difference).

    It uses the running stack, else servers started on the data of the last run. Errors: StackError.
    """
    try:
        return run_recompute(RunningStack.of(config).config)
    except NotRunningError:
        with Stack(config, _SERVERS):
            return run_recompute(config)


def run_recompute(config: StackConfig) -> int:
    """Run spark_metrics.recompute over everything, on servers that run; its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "spark_metrics.recompute", "--check-topics"],
        cwd=ROOT,
        env={**base_environment(), **function_environment(config), **spark_environment(config)},
        check=False,
    )
    return done.returncode
