"""The history of a send or a notification, from topics, tables and logs."""

from cli.tracing.gathering import gather
from cli.tracing.printing import print_trace

__all__ = ["gather", "print_trace"]
