"""Runs Lambda functions on this machine: Lambda's Runtime API and AWS's own runtime client, with one process per
execution environment.

The package is independent of Kafka, HTTP gateways and this project's functions, so that any caller that invokes
functions (an event source poller, a gateway, LocalStack's Lambda) can use it.

    echo = FunctionSpec(name="echo", handler="functions.echo.handler.handler", task_root=root)
    async with FunctionHost([echo], log_dir=logs) as host:
        result = await host.invoke("echo", b'{"hello": "world"}')
"""

from local.emulators.lambda_host.errors import (
    FunctionNotFoundError,
    HostClosedError,
    InvocationRefusedError,
    RequestTooLargeError,
)
from local.emulators.lambda_host.host import FunctionHost
from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.lambda_host.spec import FunctionSpec

__all__ = [
    "FunctionHost",
    "FunctionNotFoundError",
    "FunctionSpec",
    "HostClosedError",
    "InvocationRefusedError",
    "InvocationResult",
    "RequestTooLargeError",
]
