"""The command `masscomm upgrade` on this machine: it brings the stored data to this version."""

from collections.abc import Callable
from functools import partial

from cli.terminal import Terminal
from local.devstack.config import StackConfig
from local.devstack.handle import RunningStack
from local.devstack.provision import provisioning
from local.devstack.stack import Stack
from local.devstack.state import NotRunningError
from ops.provisioning import ProvisioningError
from ops.provisioning.database import job_runs
from ops.provisioning.steps import Step, printing, run_steps

# The servers that keep their data when the stack is down. `masscomm up` provisions the others at each start.
_SERVERS = ("kafka", "registry", "opensearch", "postgres")
# The steps that the metrics job must not run in: an earlier version of it writes the earlier form.
_WITHOUT_JOB = {"tables"}


def upgrade_local(config: StackConfig, *, check: bool, as_json: bool = False) -> int:
    """Upgrade this machine's installation; return the exit status: 1 if steps are pending after a check.

    It uses the running stack, or else starts servers on the data of the last run.

    Raises:
        StackError: A server does not start.
        ProvisioningError: A server refused a step, or the metrics job runs.
    """
    try:
        return upgrade(RunningStack.of(config).config, check=check, as_json=as_json)
    except NotRunningError:
        with Stack(config, _SERVERS):
            return upgrade(config, check=check, as_json=as_json, servers=_SERVERS)


def upgrade(config: StackConfig, *, check: bool, as_json: bool = False, servers: tuple[str, ...] | None = None) -> int:
    """Run the steps on running servers, and print each; return the exit status: 1 if steps are pending after a check.

    Args:
        config: The ports and the state folder of the stack.
        check: Whether to change nothing.
        as_json: Whether to print JSON objects instead of text.
        servers: The servers that run; None: all.
    """
    print_line = partial(Terminal().print, soft_wrap=True)
    number = run_steps(_steps(config, servers), check=check, report=printing(print_line, as_json=as_json))
    return 1 if check and number else 0


def _steps(config: StackConfig, servers: tuple[str, ...] | None) -> list[Step]:
    steps = [task for task in provisioning(config) if servers is None or set(servers).issuperset(task.depends_on)]
    return [
        Step(name=step.name, pending=step.pending, run=_without_job(config, step.run))
        if step.name in _WITHOUT_JOB
        else step
        for step in steps
    ]


def _without_job(config: StackConfig, run: Callable[[], object]) -> Callable[[], object]:
    def checked() -> object:
        if job_runs(config.database_url("metrics")):  # guard: upgrade.metrics_job
            raise ProvisioningError("The metrics job runs: stop it first. On this machine, `masscomm down`.")
        return run()

    return checked
