"""`masscomm trace`: what happened to a send or a notification, from what every part has kept of it."""

from devstack.tracing.gathering import gather
from devstack.tracing.printing import print_trace

__all__ = ["gather", "print_trace"]
