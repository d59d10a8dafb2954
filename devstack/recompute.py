"""`masscomm recompute-check`: whether what is served is what the archive and the topics say, on this machine's data."""

import subprocess
import sys

from devstack.handle import RunningStack
from devstack.service import base_environment, function_environment
from devstack.services.spark import spark_environment
from devstack.settings import ROOT, StackSettings
from devstack.stack import Stack
from devstack.state import NotRunningError

# Where the rows are, what the records' schemas are, and what the archive is compared with.
_SERVERS = ("postgres", "registry", "kafka")


def recompute_check(settings: StackSettings) -> int:
    """Run spark_metrics.recompute over everything; its exit status (0: nothing differs).

    On the stack that runs, else on servers started for it over what the last run has left. Errors: StackError.
    """
    try:
        return run_recompute(RunningStack.of(settings).settings)
    except NotRunningError:
        with Stack(settings, _SERVERS):
            return run_recompute(settings)


def run_recompute(settings: StackSettings) -> int:
    """Run spark_metrics.recompute over everything, on servers that run; its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "spark_metrics.recompute", "--check-topics"],
        cwd=ROOT,
        env={**base_environment(), **function_environment(settings), **spark_environment(settings)},
        check=False,
    )
    return done.returncode
