"""Why an invocation was refused before any function saw it.

    InvocationRefusedError
    ├── FunctionNotFoundError   no such function: ResourceNotFoundException, 404
    ├── RequestTooLargeError    payload over the limit: RequestTooLargeException, 413
    └── HostClosedError         the host is shutting down: ServiceException, 500

What a function itself does wrong is no exception: it comes back as an InvocationResult with function_error set, as
from Lambda.
"""


class InvocationRefusedError(Exception):
    """Lambda would have answered the Invoke call with an error; `status_code` is its HTTP status."""

    status_code = 500


class FunctionNotFoundError(InvocationRefusedError):
    """No function of that name is hosted."""

    status_code = 404


class RequestTooLargeError(InvocationRefusedError):
    """The payload is over what a synchronous invocation may carry."""

    status_code = 413


class HostClosedError(InvocationRefusedError):
    """The host no longer starts invocations."""
