"""Hosts all functions of one machine."""

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from local.emulators.lambda_host.environment import ExecutionEnvironment
from local.emulators.lambda_host.errors import FunctionNotFoundError, HostClosedError, RequestTooLargeError
from local.emulators.lambda_host.invocation import MAX_REQUEST_BYTES, InvocationResult
from local.emulators.lambda_host.pool import EnvironmentPool
from local.emulators.lambda_host.spec import FunctionSpec

# The number of environments that are started concurrently. More concurrent starts than cores slow each other down.
STARTS_AT_ONCE = 3


class FunctionHost:
    """Runs each function in processes of its own, and invokes the functions.

    Args:
        functions: The functions to host.
        log_dir: The folder of the log files; the processes of a function append to `<name>.log`.
        port: The port of the Runtime APIs. Each environment has its own address, from 127.0.1.1 on. With 0, free ports
            are used.

    The event loop must run in a thread that lives as long as the host: when that thread ends, the kernel kills the
    functions.
    """

    def __init__(self, functions: Iterable[FunctionSpec], *, log_dir: Path, port: int = 0) -> None:
        self._port = port
        self._addresses = (f"127.0.{block}.{last}" for block, last in _endless_addresses())
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._closed = False
        self._pools: dict[str, EnvironmentPool] = {}
        for spec in functions:
            if spec.name in self._pools:
                raise ValueError(f"function {spec.name} is given twice")
            self._pools[spec.name] = EnvironmentPool(
                spec=spec, log_file=log_dir / f"{spec.name}.log", start=self._start_environment
            )

    @property
    def pools(self) -> Mapping[str, EnvironmentPool]:
        """Return the environments of each function by its name, with their statistics, processes and readiness."""
        return self._pools

    async def invoke(self, name: str, payload: bytes) -> InvocationResult:
        """Invoke a function and wait for its response (Lambda's InvocationType RequestResponse).

        Args:
            name: The name of the function.
            payload: The event as JSON, at most 6 MiB.

        Raises:
            FunctionNotFoundError, RequestTooLargeError, HostClosedError: The invocation was refused before the function
                was invoked.
        """
        pool = self._pools.get(name)
        if pool is None:
            raise FunctionNotFoundError(f"Function not found: {name}")
        if len(payload) > MAX_REQUEST_BYTES:
            raise RequestTooLargeError(
                f"{len(payload)} byte payload is too large for the RequestResponse invocation type "
                f"(limit {MAX_REQUEST_BYTES} bytes)"
            )
        if self._closed:
            raise HostClosedError("the function host is shutting down")
        return await pool.invoke(payload)

    def start(self) -> None:
        """Start the environments that are to be kept warm, in the background."""
        for pool in self._pools.values():
            pool.warm_up()

    async def close(self) -> None:
        """Refuse further invocations and kill every process."""
        self._closed = True
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _start_environment(self, environment: ExecutionEnvironment) -> None:
        async with self._starts:
            await environment.start(next(self._addresses), self._port)


def _endless_addresses() -> Iterable[tuple[int, int]]:
    # The addresses repeat after 64,516 environments; the earlier environment of an address has ended long before.
    return itertools.cycle((block, last) for block in range(1, 255) for last in range(1, 255))
