"""The command `masscomm query`: it queries the metrics archive of this machine."""

from local.devstack.config import StackConfig
from local.devstack.handle import RunningStack
from local.devstack.services.spark import run_module
from local.devstack.stack import Stack
from local.devstack.state import NotRunningError


def query_archive(config: StackConfig, text: str, *, at: str | None, as_csv: bool, as_json: bool) -> int:
    """Run spark_metrics.query; return its exit status.

    It uses the running stack, or else starts PostgreSQL on the data of the last run. Raises StackError.
    """
    forms = [*(["--csv"] if as_csv else []), *(["--json"] if as_json else [])]
    options = [*forms, *([f"--at={at}"] if at else [])]
    try:
        return run_module(RunningStack.of(config).config, "spark_metrics.query", text, *options)
    except NotRunningError:
        with Stack(config, ("postgres",)):
            return run_module(config, "spark_metrics.query", text, *options)
