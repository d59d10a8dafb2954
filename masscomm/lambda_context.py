"""The context of a Lambda invocation."""

from typing import Protocol


class LambdaContext(Protocol):
    """The part of Lambda's context object that the functions use."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the invocation."""
        ...
