"""What Lambda tells a function of its invocation."""

from typing import Protocol


class LambdaContext(Protocol):
    """What is needed of Lambda's context object."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the invocation."""
        ...
