"""The errors of an invocation that is refused before the function is invoked.

    InvocationRefusedError
    ├── FunctionNotFoundError   no such function: ResourceNotFoundException, 404
    ├── RequestTooLargeError    payload over the limit: RequestTooLargeException, 413
    └── HostClosedError         the host is shutting down: ServiceException, 500

Errors of a function itself are not raised: they are returned as an InvocationResult with function_error set, as Lambda
does.
"""


class InvocationRefusedError(Exception):
    """The invocation was refused. `status_code` is the HTTP status with which Lambda would respond to the Invoke
    call.
    """

    status_code = 500


class FunctionNotFoundError(InvocationRefusedError):
    """The host has no function with that name."""

    status_code = 404


class RequestTooLargeError(InvocationRefusedError):
    """The payload exceeds the limit of a synchronous invocation."""

    status_code = 413


class HostClosedError(InvocationRefusedError):
    """The host is closing and no longer starts invocations."""
