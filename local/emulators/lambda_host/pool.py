"""The execution environments of one function."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from local.emulators.lambda_host.environment import ExecutionEnvironment, InitFailedError, describe
from local.emulators.lambda_host.errors import HostClosedError
from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.lambda_host.spec import FunctionSpec
from local.emulators.lambda_host.statistics import FunctionStatistics

log = logging.getLogger(__name__)

FIRST_INIT_BACKOFF_S = 0.25
LAST_INIT_BACKOFF_S = 5.0


@dataclass(kw_only=True, eq=False)
class EnvironmentPool:
    """Starts environments on demand up to the function's concurrency and keeps them for further invocations."""

    spec: FunctionSpec
    # The file that the function's processes write to.
    log_file: Path
    # Starts an environment on an address of its own.
    start: Callable[[ExecutionEnvironment], Awaitable[None]]
    # Returns the time in seconds of a monotonic clock.
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.statistics = FunctionStatistics()
        self.init_error: bytes | None = None
        self._slots = asyncio.Semaphore(self.spec.concurrency)
        self._idle: list[ExecutionEnvironment] = []
        self._environments: set[ExecutionEnvironment] = set()
        self._init_failures = 0
        self._init_not_before = 0.0
        self._closed = False
        self._warmed = self.spec.warm == 0
        self._warming: asyncio.Task[None] | None = None

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that run now."""
        return sorted(pid for environment in self._environments if (pid := environment.pid) is not None)

    @property
    def ready(self) -> bool:
        """Return whether all environments to be kept warm have started once, and no start has failed since."""
        return self._warmed and self.init_error is None

    async def invoke(self, payload: bytes) -> InvocationResult:
        """Run one invocation in a free environment. Callers wait for an environment in the order of their arrival."""
        self.statistics.queued += 1
        try:
            await self._slots.acquire()
        finally:
            self.statistics.queued -= 1
        self.statistics.in_flight += 1
        try:
            if self._closed:
                raise HostClosedError("the function host is shutting down")
            result = await self._invoke(payload)
        finally:
            self.statistics.in_flight -= 1
            self._slots.release()
        self.statistics.count(result)
        if result.function_error is not None:
            log.warning("%s: %s", self.spec.name, describe(result.payload))
        return result

    def warm_up(self) -> None:
        """Start the environments to be kept warm in the background; repeat failed starts until they succeed."""
        if not self._warmed and self._warming is None:
            self._warming = asyncio.create_task(self._warm_up(), name=f"warm {self.spec.name}")

    async def close(self) -> None:
        """Kill every process and wait until all have ended; waiting invocations are refused."""
        self._closed = True
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        await asyncio.gather(*(environment.stop() for environment in list(self._environments)))

    async def _invoke(self, payload: bytes) -> InvocationResult:
        # The most recently used environment is chosen, because its caches are warm.
        while self._idle:
            environment = self._idle.pop()
            if environment.alive:
                break
        else:
            try:
                environment = await self._new_environment()
            except InitFailedError as error:
                return InvocationResult(
                    payload=error.payload, request_id="none", function_error="Unhandled", environment_crashed=True
                )
        result = await environment.invoke(payload)
        if environment.alive and not result.environment_crashed:
            self._idle.append(environment)
        return result

    async def _new_environment(self, *, ahead: bool = False) -> ExecutionEnvironment:
        # A failed initialisation is repeated after a delay: otherwise a function that fails at import would start a
        # process for every waiting record.
        if self.init_error is not None and self.clock() < self._init_not_before:
            raise InitFailedError(self.init_error)
        environment = ExecutionEnvironment(
            spec=self.spec, log_file=self.log_file, on_exit=self._environments.discard, ahead=ahead
        )
        self._environments.add(environment)
        started = self.clock()
        self.statistics.cold_starts += 1
        try:
            await self.start(environment)
        except InitFailedError as error:
            self._init_failures += 1
            backoff = min(FIRST_INIT_BACKOFF_S * 2 ** min(self._init_failures - 1, 10), LAST_INIT_BACKOFF_S)
            self._init_not_before = self.clock() + backoff
            self.init_error = error.payload
            self._environments.discard(environment)
            log.warning("%s: init failed (%d): %s", self.spec.name, self._init_failures, describe(error.payload))
            raise
        except BaseException:
            self._environments.discard(environment)
            raise
        if self._closed:
            # `close` could not stop this environment, because its process had not started yet.
            await environment.stop()
            raise HostClosedError("the function host is shutting down")
        self.statistics.count_init((self.clock() - started) * 1000)
        self.init_error = None
        self._init_failures = 0
        return environment

    async def _warm_up(self) -> None:
        warmed = 0
        while warmed < self.spec.warm:
            async with self._slots:
                try:
                    environment = await self._new_environment(ahead=True)
                except InitFailedError:
                    environment = None
                if environment is not None:
                    self._idle.insert(0, environment)
                    warmed += 1
            if environment is None:
                await asyncio.sleep(max(0.0, self._init_not_before - self.clock()))
        self._warmed = True
