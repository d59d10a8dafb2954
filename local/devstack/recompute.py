"""The command `masscomm recompute-check`: it compares the served metrics with the archive and the topics on this
machine.
"""

from local.devstack.config import StackConfig
from local.devstack.handle import RunningStack
from local.devstack.services.spark import run_module
from local.devstack.stack import Stack
from local.devstack.state import NotRunningError

# The servers that recompute reads: PostgreSQL for metrics, the registry for schemas, Kafka for the records.
_SERVERS = ("postgres", "registry", "kafka")


def recompute_check(config: StackConfig, *, as_json: bool = False) -> int:
    """Run spark_metrics.recompute over all records; return its exit status (0: no difference).

    It uses the running stack, or else starts servers on the data of the last run. Raises StackError.
    """
    try:
        return run_recompute(RunningStack.of(config).config, as_json=as_json)
    except NotRunningError:
        with Stack(config, _SERVERS):
            return run_recompute(config, as_json=as_json)


def run_recompute(config: StackConfig, *, as_json: bool = False) -> int:
    """Run spark_metrics.recompute over all records on running servers; return its exit status."""
    return run_module(config, "spark_metrics.recompute", "--check-topics", *(["--json"] if as_json else []))
