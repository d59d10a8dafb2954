"""Runs functions that are deployed to LocalStack as processes under AWS's own runtime client, without Docker.

The process of a function can import its unzipped package and the libraries of Lambda's runtime (in the folder
MASSCOMM_LAMBDA_RUNTIME), but no package of this checkout's virtual environment.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from local.emulators.lambda_host.environment import ExecutionEnvironment, InitFailedError
from local.emulators.lambda_host.spec import FunctionSpec
from local.emulators.localstack_plugins import MAIL_VARIABLE

LOOPBACK = "127.0.0.1"
INIT_TIMEOUT_S = 60.0


class _Loop:
    """One event loop for all functions, in a thread that lives as long as LocalStack: when that thread ends, the
    functions are killed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop from any other thread, and return its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="function-processes", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_functions = _Loop()


class ProcessExecutor(RuntimeExecutor):
    """One execution environment. If its process has crashed, or was killed at its time-out, the next call starts a
    new one.
    """

    def __init__(self, id: str, function_version: FunctionVersion) -> None:
        super().__init__(id, function_version)
        self._log = Path(tempfile.gettempdir(), "function-logs", f"{function_version.id.function_name}-{id}.log")
        self._variables: dict[str, str] = {}
        self._environment: ExecutionEnvironment | None = None

    def start(self, env_vars: dict[str, str]) -> None:
        """Start the process and wait for its initialisation. Raises StatusErrorException with the error of the
        initialisation.
        """
        self._variables = {name: str(value) for name, value in env_vars.items()}
        self._start()

    def stop(self) -> None:
        if self._environment is not None:
            _functions.run(self._environment.stop())
            self._environment = None

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Run one invocation. Its log stays in a file, because LocalStack would use a log group with another name."""
        environment = self._environment
        if environment is None or not environment.alive:
            environment = self._start()
        result = _functions.run(environment.invoke(payload["payload"].encode()))
        return InvocationResult(
            request_id=payload["invoke-id"],
            payload=result.payload,
            is_error=result.function_error is not None,
            logs=None,
        )

    def get_address(self) -> str:
        return LOOPBACK

    def get_endpoint_from_executor(self) -> str:
        """Return LocalStack's address as seen from the process."""
        return LOOPBACK

    def get_runtime_endpoint(self) -> str:
        """Return no endpoint: LocalStack's own runtime program, which runs in containers, is not used."""
        return ""

    def get_logs(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Do nothing: LocalStack itself removes the package."""

    def _start(self) -> ExecutionEnvironment:
        config = self.function_version.config
        root = config.code.get_unzipped_code_location()
        spec = FunctionSpec(
            name=self.function_version.id.function_name,
            handler=config.handler,
            task_root=root,
            timeout_s=config.timeout,
            init_timeout_s=INIT_TIMEOUT_S,
            memory_mb=config.memory_size,
            environment={
                **self._variables,
                # LocalStack does not have version 2 of SES.
                "AWS_ENDPOINT_URL_SESV2": os.environ[MAIL_VARIABLE],
                "PYTHONPATH": os.pathsep.join((str(root), os.environ["MASSCOMM_LAMBDA_RUNTIME"])),
                "PYTHONNOUSERSITE": "1",
            },
            # The interpreter outside LocalStack's virtual environment, so that functions cannot import its packages.
            python=os.path.realpath(sys.executable),
        )
        environment = ExecutionEnvironment(spec=spec, log_file=self._log, on_exit=lambda _: None)
        try:
            _functions.run(environment.start(LOOPBACK, 0))
        except InitFailedError as error:
            raise StatusErrorException("the function's init failed", payload=error.payload) from error
        self._environment = environment
        return environment


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    """The plug-in that LocalStack uses for LAMBDA_RUNTIME_EXECUTOR=processes."""

    name = "processes"

    def load(self, *_args: object, **_kwargs: object) -> type[RuntimeExecutor]:
        """Return the class that LocalStack instantiates for each environment."""
        return ProcessExecutor
