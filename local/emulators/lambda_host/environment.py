"""One execution environment: a process that runs awslambdaric, and the Runtime API that it connects to.

Source: AWS documentation, "Understanding the Lambda execution environment lifecycle".
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from local.emulators.lambda_host.invocation import Invocation, InvocationResult, exited, platform_error, timed_out
from local.emulators.lambda_host.runtime_api import RuntimeApi
from local.emulators.lambda_host.spec import REGION, FunctionSpec

log = logging.getLogger(__name__)

# This program asks the kernel to kill the process when its parent ends, and then becomes the Lambda runtime. It is a
# separate program because code between fork and exec is not safe in the host, a process with threads.
_LAUNCH = """\
import ctypes, os, signal, sys
parent, python, handler = int(sys.argv[1]), sys.argv[2], sys.argv[3]
PR_SET_PDEATHSIG = 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
if os.getppid() != parent:
    sys.exit("the host ended before its function started")
os.execv(python, [python, "-m", "awslambdaric", handler])
"""


class InitFailedError(Exception):
    """The process never requested an invocation. `payload` is the JSON error that Lambda returns to the invocation
    for which the process was started.
    """

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload.decode(errors="replace"))
        self.payload = payload


@dataclass(kw_only=True, eq=False)
class ExecutionEnvironment:
    """A process that runs one function, for one invocation at a time."""

    spec: FunctionSpec
    # The file to which the process's standard output and error are appended.
    log_file: Path
    # Is called once when the process has ended, for any reason.
    on_exit: Callable[["ExecutionEnvironment"], None]
    # Whether the environment is started ahead of its first event, as provisioned concurrency does.
    ahead: bool = False

    def __post_init__(self) -> None:
        self.invocations = 0
        self._api = RuntimeApi(function_arn=self.spec.arn, on_ready=self._ready, on_init_error=self._init_failed)
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._init: asyncio.Future[bytes | None] | None = None
        self._killed = False

    @property
    def pid(self) -> int | None:
        """The id of the process while it runs; None otherwise."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def alive(self) -> bool:
        """Whether the environment can take an invocation: its process runs, and has not been killed."""
        return self.pid is not None and not self._killed

    async def start(self, host: str, port: int) -> None:
        """Start the process and wait until it requests its first invocation.

        Raises:
            InitFailedError: The initialisation failed, ended early or took longer than init_timeout_s.
            OSError: The address of the Runtime API is in use.
        """
        self._init = asyncio.get_running_loop().create_future()
        await self._api.listen(host, port)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab", buffering=0) as output:
            self._process = await asyncio.create_subprocess_exec(
                self.spec.python,
                *("-I", "-S", "-c", _LAUNCH),
                *(str(os.getpid()), self.spec.python, self.spec.handler),
                cwd=self.spec.task_root,
                env=self._variables(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._watch = asyncio.create_task(self._watch_process(self._process), name=f"watch {self.spec.name}")
        try:
            async with asyncio.timeout(self.spec.init_timeout_s):
                error = await self._init
        except TimeoutError:
            message = f"Init timed out after {self.spec.init_timeout_s:.2f} seconds"
            error = platform_error("Sandbox.Timedout", message, "none")
        except asyncio.CancelledError:
            await self.stop()
            raise
        if error is not None:
            await self.stop()
            raise InitFailedError(error)

    async def invoke(self, payload: bytes) -> InvocationResult:
        """Run one invocation. If the function does not respond within its timeout, its process is killed, as in
        Lambda.
        """
        timeout_s = self.spec.timeout_s
        invocation = Invocation(
            payload=payload,
            response=asyncio.get_running_loop().create_future(),
            deadline_ms=int((time.time() + timeout_s) * 1000),
        )
        cold = self.invocations == 0
        self.invocations += 1
        started = time.perf_counter()
        if self.alive:
            self._api.offer(invocation)
        else:
            invocation.fail(exited(invocation.request_id, self._returncode), environment_lost=True)
        # A timer of the event loop is cheaper than asyncio.timeout, and this code runs for every invocation.
        timer = asyncio.get_running_loop().call_later(timeout_s, self._time_out, invocation)
        try:
            response, failed, lost = await invocation.response
        except asyncio.CancelledError:
            # The invocation was cancelled in the middle, so the process must not be reused.
            self.kill()
            raise
        finally:
            timer.cancel()
        if cold and self.spec.nice:
            # The start and the first invocation build everything. With the niceness they took seconds instead of tenths
            # on a machine that still started other services.
            await self._be_nice()
        return InvocationResult(
            payload=response,
            request_id=invocation.request_id,
            function_error="Unhandled" if failed else None,
            duration_ms=(time.perf_counter() - started) * 1000,
            cold_start=cold,
            environment_crashed=lost,
        )

    def kill(self) -> None:
        """Kill the process and all processes that it started, at once."""
        self._killed = True
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Kill the process, and wait until the process and its Runtime API have ended."""
        self.kill()
        if self._watch is not None:
            await self._watch
        await self._api.close()

    async def _be_nice(self) -> None:
        """Set the niceness of the process's threads and of its autogroup: if the kernel has autogroups, the niceness of
        a process applies only within its session. Without root, the kernel permits ten changes of an autogroup's
        niceness a second.
        """
        folder = Path(f"/proc/{self.pid}")
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + self.spec.nice
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # The process has ended.
            # A thread that begins while the threads are listed may be missing from the list.
            while others := [
                thread for thread in _threads(folder) if os.getpriority(os.PRIO_PROCESS, thread) != niceness
            ]:
                for thread in others:
                    os.setpriority(os.PRIO_PROCESS, thread, niceness)
            waiting = (folder / "autogroup").exists()
            while waiting:
                try:
                    (folder / "autogroup").write_text(str(self.spec.nice))
                    waiting = False
                except BlockingIOError:
                    await asyncio.sleep(0.05)
                except OSError as error:
                    log.warning("%s: as nice within its session alone: %s", self.spec.name, error)
                    waiting = False

    @property
    def _returncode(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    def _time_out(self, invocation: Invocation) -> None:
        log.warning("%s: timed out after %.2f s, environment %s killed", self.spec.name, self.spec.timeout_s, self.pid)
        invocation.fail(timed_out(invocation.request_id, self.spec.timeout_s), environment_lost=True)
        self.kill()

    def _ready(self) -> None:
        if self._init is not None and not self._init.done():
            self._init.set_result(None)

    def _init_failed(self, payload: bytes) -> None:
        if self._init is not None and not self._init.done():
            self._init.set_result(payload)

    async def _watch_process(self, process: asyncio.subprocess.Process) -> None:
        returncode = await process.wait()
        # The process may have left child processes behind in its process group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._init_failed(exited("none", returncode))
        self._api.abandon(lambda request_id: exited(request_id, returncode))
        await self._api.close()
        self.on_exit(self)

    def _variables(self) -> dict[str, str]:
        """Return the environment variables of the process: Lambda's reserved variables, those of the function, and
        from the host only PATH and HOME.

        Source: AWS documentation, "Defined runtime environment variables".
        """
        spec = self.spec
        region = spec.environment.get("AWS_REGION", REGION)
        stream = f"{datetime.now(UTC):%Y/%m/%d}/[$LATEST]{secrets.token_hex(16)}"
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.environ.get("HOME", str(spec.task_root)),
            "LANG": "en_US.UTF-8",
            "TZ": ":UTC",
            "PYTHONPATH": str(spec.task_root),
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            **spec.environment,
            "_HANDLER": spec.handler,
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
            "AWS_LAMBDA_FUNCTION_NAME": spec.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "provisioned-concurrency" if self.ahead else "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{spec.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
            "AWS_LAMBDA_RUNTIME_API": self._api.address,
            "LAMBDA_TASK_ROOT": str(spec.task_root),
        }


def describe(payload: bytes) -> str:
    """Return the error in a function's error payload as one line, for a log."""
    try:
        error = json.loads(payload)
        return f"{error.get('errorType', 'error')}: {error.get('errorMessage', '')}"
    except (ValueError, AttributeError):
        return payload[:200].decode(errors="replace")


def _threads(folder: Path) -> list[int]:
    """Return the ids of a process's threads."""
    return [int(each.name) for each in (folder / "task").iterdir()]
