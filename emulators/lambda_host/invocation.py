"""One invocation: request, response, and the errors that Lambda itself reports."""

import json
import secrets
import signal
import time
import uuid
from asyncio import Future
from dataclasses import dataclass, field

# Lambda's own figures: a request may have 6 MiB, a response 100 bytes more. Source: AWS documentation, "Lambda quotas".
MAX_REQUEST_BYTES = 6 * 1024 * 1024
MAX_RESPONSE_BYTES = MAX_REQUEST_BYTES + 100


@dataclass(frozen=True, kw_only=True)
class InvocationResult:
    """Lambda's Invoke response for InvocationType RequestResponse.

    Attributes:
        payload: the JSON response, or with function_error set a JSON object with errorMessage, errorType and,
            where the function raised, requestId and stackTrace.
        function_error: None, or "Unhandled" where the function raised, timed out, exited or returned too much.
        status_code: always 200: the invocation as such took place.
        duration_ms: from start to response, without queueing and without a cold start.
        cold_start: this invocation was the first of its environment.
        environment_crashed: the process ended or was killed, so the environment is gone.

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
    """A new X-Ray trace header, not sampled. Source: AWS documentation, "Tracing header" of X-Ray."""
    return f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)};Parent={secrets.token_hex(8)};Sampled=0"


@dataclass(kw_only=True)
class Invocation:
    """An invocation in flight in one environment; `response` is (payload, failed, environment lost)."""

    payload: bytes
    response: "Future[tuple[bytes, bool, bool]]"
    deadline_ms: int
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    trace_id: str = field(default_factory=trace_header)

    def succeed(self, payload: bytes) -> None:
        """Set the function's response; the first response counts."""
        if not self.response.done():
            self.response.set_result((payload, False, False))

    def fail(self, payload: bytes, *, environment_lost: bool = False) -> None:
        """Set an error, the function's own or Lambda's; the first response counts."""
        if not self.response.done():
            self.response.set_result((payload, True, environment_lost))


def platform_error(error_type: str, message: str, request_id: str) -> bytes:
    """An error Lambda itself reports about a function, as its JSON payload."""
    return json.dumps({"errorType": error_type, "errorMessage": f"RequestId: {request_id} Error: {message}"}).encode()


def timed_out(request_id: str, timeout_s: float) -> bytes:
    """The payload for a function that timed out."""
    return platform_error("Sandbox.Timedout", f"Task timed out after {timeout_s:.2f} seconds", request_id)


def exited(request_id: str, returncode: int | None) -> bytes:
    """The payload for a process that exited without a response; a negative `returncode` is a signal."""
    if returncode is None or returncode == 0:
        reason = "Runtime exited without providing a reason"
    elif returncode < 0:
        # In the words of Lambda's supervisor, which are Go's: "killed", "segmentation fault".
        name = (signal.strsignal(-returncode) or str(-returncode)).lower()
        reason = f"Runtime exited with error: signal: {name}"
    else:
        reason = f"Runtime exited with error: exit status {returncode}"
    return platform_error("Runtime.ExitError", reason, request_id)


def response_too_large(size: int) -> bytes:
    """The payload for a response over the limit."""
    message = (
        f"Response payload size ({size} bytes) exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
    )
    return json.dumps({"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message}).encode()
