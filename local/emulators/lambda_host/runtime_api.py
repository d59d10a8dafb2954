"""Serves Lambda's Runtime API to one execution environment, over HTTP on a separate loopback address.

awslambdaric builds its URLs as http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/…, and uses only host and port to report an
error at initialisation, so a path prefix cannot identify an environment. Its address does: all Runtime APIs listen on
the same port, each on a separate address in 127.0.0.0/8, which Linux treats as loopback.

Source: AWS documentation, "Using the Lambda runtime API for custom runtimes".
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from local.emulators.lambda_host.invocation import MAX_RESPONSE_BYTES, Invocation, response_too_large

PREFIX = "/2018-06-01/runtime"


@dataclass(kw_only=True, eq=False)
class RuntimeApi:
    """Serves one process: it returns one invocation at a time and receives the responses."""

    # The ARN of the function, sent to the process with each invocation.
    function_arn: str
    # Is called when the process requests its first invocation, that is when its initialisation has ended.
    on_ready: Callable[[], None]
    # Is called with the JSON error that the process reports if its initialisation failed.
    on_init_error: Callable[[bytes], None]

    def __post_init__(self) -> None:
        self._queue: asyncio.Queue[Invocation] = asyncio.Queue()
        self._current: Invocation | None = None
        self._asking: asyncio.Task[None] | None = None
        self._runner: web.ServerRunner | None = None
        self.address = ""

    async def listen(self, host: str, port: int) -> None:
        """Listen on host and port (0: any free port). The attribute `address` then has the value for
        AWS_LAMBDA_RUNTIME_API.

        Raises OSError if the port is in use.
        """
        self._runner = web.ServerRunner(web.Server(self._serve, access_log=None), shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound_host, bound_port = self._runner.addresses[0][:2]
        self.address = f"{bound_host}:{bound_port}"

    async def close(self) -> None:
        """Stop listening and close the connection of the process."""
        if self._asking is not None:
            # The process waits for its next invocation; without the cancellation, the shutdown would wait for this
            # request.
            self._asking.cancel()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def offer(self, invocation: Invocation) -> None:
        """Return this invocation to the process when it requests the next one."""
        self._queue.put_nowait(invocation)

    def abandon(self, error: Callable[[str], bytes]) -> None:
        """Fail the current and the queued invocations. `error` returns the error payload for a request id."""
        while not self._queue.empty():
            waiting = self._queue.get_nowait()
            waiting.fail(error(waiting.request_id), environment_lost=True)
        if self._current is not None:
            self._current.fail(error(self._current.request_id), environment_lost=True)
            self._current = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.method, request.path.removeprefix(PREFIX).split("/"):
            case "GET", ["", "invocation", "next"]:
                return await self._next()
            case "POST", ["", "invocation", request_id, "response"]:
                return await self._response(request, request_id)
            case "POST", ["", "invocation", request_id, "error"]:
                return await self._error(request, request_id)
            case "POST", ["", "init", "error"]:
                self.on_init_error(await request.content.read())
                return _accepted()
        return _refused(404, "NotFound", "no such path in the Runtime API")

    async def _next(self) -> web.Response:
        self.on_ready()
        self._asking = asyncio.current_task()
        try:
            invocation = self._current = await self._queue.get()
        finally:
            self._asking = None
        return web.Response(
            body=invocation.payload,
            content_type="application/json",
            headers={
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": self.function_arn,
                "Lambda-Runtime-Trace-Id": invocation.trace_id,
            },
        )

    def _claim(self, request_id: str) -> Invocation | None:
        current = self._current
        if current is None or current.request_id != request_id:
            return None
        return current

    async def _response(self, request: web.BaseRequest, request_id: str) -> web.Response:
        invocation = self._claim(request_id)
        if invocation is None:
            return _refused(400, "InvalidRequestID", "Invalid request ID")
        # Even a body above the size limit is read to its end, so that the process gets an error status and not a broken
        # connection.
        body = bytearray()
        size = 0
        async for chunk in request.content.iter_any():
            size += len(chunk)
            if size <= MAX_RESPONSE_BYTES:
                body += chunk
        self._current = None
        if size > MAX_RESPONSE_BYTES:
            invocation.fail(response_too_large(size))
            return _refused(413, "RequestEntityTooLarge", "Exceeded maximum allowed payload size")
        invocation.succeed(bytes(body))
        return _accepted()

    async def _error(self, request: web.BaseRequest, request_id: str) -> web.Response:
        invocation = self._claim(request_id)
        if invocation is None:
            return _refused(400, "InvalidRequestID", "Invalid request ID")
        body = await request.content.read()
        self._current = None
        invocation.fail(body)
        return _accepted()


def _accepted() -> web.Response:
    return web.Response(status=202, body=b'{"status":"OK"}\n', content_type="application/json")


def _refused(status: int, error_type: str, message: str) -> web.Response:
    body = json.dumps({"errorType": error_type, "errorMessage": message}).encode()
    return web.Response(status=status, body=body, content_type="application/json")
