"""One invocation: its request, its response, and the errors that Lambda itself reports."""

import json
import secrets
import signal
import time
import uuid
from asyncio import Future
from dataclasses import dataclass, field

# Lambda's own limits: a request may have 6 MiB, a response 100 bytes more. Source: AWS documentation, "Lambda quotas".
MAX_REQUEST_BYTES = 6 * 1024 * 1024
MAX_RESPONSE_BYTES = MAX_REQUEST_BYTES + 100


@dataclass(frozen=True, kw_only=True)
class InvocationResult:
    """Lambda's Invoke response for InvocationType RequestResponse.

    Attributes:
        payload: The JSON response, or if function_error is set a JSON object with errorMessage, errorType and, if the
            function raised, requestId and stackTrace.
        function_error: None, or "Unhandled" if the function raised, timed out, exited or returned too much.
        status_code: Always 200, because the function was invoked.
        duration_ms: The time from the start to the response in milliseconds, without queueing and without a cold start.
        cold_start: Whether this invocation was the first of its environment.
        environment_crashed: Whether the process ended or was killed, so that the environment no longer exists.

    Source: AWS documentation, "Invoke" in the Lambda API reference.
    """

    payload: bytes
    request_id: str
    function_error: str | None = None
    status_code: int = 200
    executed_version: str = "$LATEST"
    duration_ms: float = 0.0
    cold_start: bool = False
    environment_crashed: bool = False


def trace_header() -> str:
    """Return a new X-Ray trace header that is not sampled. Source: AWS documentation, "Tracing header" of X-Ray."""
    return f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)};Parent={secrets.token_hex(8)};Sampled=0"


@dataclass(kw_only=True)
class Invocation:
    """An invocation in flight in one environment. `response` is (payload, failed, environment lost)."""

    payload: bytes
    response: "Future[tuple[bytes, bool, bool]]"
    deadline_ms: int
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    trace_id: str = field(default_factory=trace_header)

    def succeed(self, payload: bytes) -> None:
        """Set the response of the function; only the first response counts."""
        if not self.response.done():
            self.response.set_result((payload, False, False))

    def fail(self, payload: bytes, *, environment_lost: bool = False) -> None:
        """Set an error of the function or of Lambda; only the first response counts."""
        if not self.response.done():
            self.response.set_result((payload, True, environment_lost))


def platform_error(error_type: str, message: str, request_id: str) -> bytes:
    """Return the JSON payload of an error that Lambda itself reports about a function."""
    return json.dumps({"errorType": error_type, "errorMessage": f"RequestId: {request_id} Error: {message}"}).encode()


def timed_out(request_id: str, timeout_s: float) -> bytes:
    """Return the error payload for a function that timed out."""
    return platform_error("Sandbox.Timedout", f"Task timed out after {timeout_s:.2f} seconds", request_id)


def exited(request_id: str, returncode: int | None) -> bytes:
    """Return the error payload for a process that exited without a response; a negative `returncode` is a signal."""
    if returncode is None or returncode == 0:
        reason = "Runtime exited without providing a reason"
    elif returncode < 0:
        # The text is that of Lambda's supervisor, which uses Go's names of signals: "killed", "segmentation fault".
        name = (signal.strsignal(-returncode) or str(-returncode)).lower()
        reason = f"Runtime exited with error: signal: {name}"
    else:
        reason = f"Runtime exited with error: exit status {returncode}"
    return platform_error("Runtime.ExitError", reason, request_id)


def response_too_large(size: int) -> bytes:
    """Return the error payload for a response above the size limit."""
    message = (
        f"Response payload size ({size} bytes) exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
    )
    return json.dumps({"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message}).encode()
