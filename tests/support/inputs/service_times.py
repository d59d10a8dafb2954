"""Fixed service times, so that tests do not depend on new measurements."""

from lab.capacity.service_times import Line, Time

PROVIDER_S = 0.02


def line(invocation_s: float, recipient_s: float) -> Line:
    """Return the service times of a function, half of which is processor time."""
    return Line(
        invocation=Time(wall_s=invocation_s, cpu_s=invocation_s / 2),
        recipient=Time(wall_s=recipient_s, cpu_s=recipient_s / 2),
    )
