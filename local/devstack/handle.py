"""A handle on a stack that another process runs: its addresses, environment and memory."""

import os
from typing import Any, Protocol, Self

from local.devstack import process
from local.devstack.config import StackConfig
from local.devstack.service import function_environment
from local.devstack.state import NotRunningError, RunState, Started
from masscomm.domain.source_tables import SOURCE_VARIABLE


class StackHandle(Protocol):
    """The interface of a running stack for the demo and the commands, whether it runs in this process or in another
    one.
    """

    config: StackConfig

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables of the functions, and MONOLITH_DATABASE_URL."""
        ...

    @property
    def urls(self) -> dict[str, str]: ...

    def memory_mb(self) -> float: ...

    peak_mb: float  # The highest resident memory of all processes together so far, in MB.
    # The seconds from the start of the first process until the last service was ready.
    start_s: float


class RunningStack:
    """The stack that runs in a state folder. Creating the object raises NotRunningError if there is none."""

    def __init__(self, state: RunState) -> None:
        self.record = state.read()
        holder = state.holder()
        if holder is None or not self.record:
            raise NotRunningError(f"No stack runs here ({state.config.state_dir}). `masscomm up` starts it.")
        # The running stack's own configuration is used, because its ports may differ from those in this process's
        # environment.
        self.config = StackConfig.from_dict(self.record["settings"])
        self.holder_pid = int(holder["pid"])
        self.since = str(holder["since"])
        self.ready = bool(self.record["ready"])
        self.start_s = float(self.record["start_s"])
        self.peak_mb = float(self.record["peak_mb"])
        self.services = {name: Started(**values) for name, values in self.record["services"].items()}

    @classmethod
    def of(cls, config: StackConfig) -> Self:
        """Return the stack in the state folder that the configuration names."""
        return cls(RunState(config))

    @classmethod
    def here(cls) -> Self:
        """Return the stack in the state folder that the environment variables name. From then on, this process reads
        the stack's file of the monolith's tables, with which the functions work.
        """
        stack = cls.of(StackConfig.from_environment())
        if stack.config.source is not None:
            os.environ[SOURCE_VARIABLE] = str(stack.config.source)
        return stack

    @property
    def environment(self) -> dict[str, str]:
        return {**function_environment(self.config), "MONOLITH_DATABASE_URL": self.config.database_url("monolith")}

    @property
    def urls(self) -> dict[str, str]:
        return {name: started.address for name, started in self.services.items()}

    def service_memory_mb(self, name: str) -> float:
        """Return the resident memory of one service's processes in MB; 0 if the service has ended."""
        started = self.services[name]
        return process.rss_mb(process.family(started.pid)) if started.alive() else 0.0

    def memory_mb(self) -> float:
        total = sum(self.service_memory_mb(name) for name in self.services)
        self.peak_mb = max(self.peak_mb, total)
        return total

    def as_json(self) -> dict[str, Any]:
        """Return the record of the run as stored in the state folder."""
        return self.record
