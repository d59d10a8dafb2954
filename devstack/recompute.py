"""`masscomm recompute-check`: whether what is served is what the archive and the topics say, on this machine's data."""

import subprocess
import sys

from devstack.config import ROOT, StackConfig
from devstack.handle import RunningStack
from devstack.service import base_environment, function_environment
from devstack.services.spark import spark_environment
from devstack.stack import Stack
from devstack.state import NotRunningError

# Where the rows are, what the records' schemas are, and what the archive is compared with.
_SERVERS = ("postgres", "registry", "kafka")


def recompute_check(config: StackConfig) -> int:
    """Run spark_metrics.recompute over everything; its exit status (0: nothing differs).

    On the stack that runs, else on servers started for it over what the last run has left. Errors: StackError.
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
