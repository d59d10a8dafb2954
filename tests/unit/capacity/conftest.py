"""Service times that no measurement changes."""

import pytest

from infra.capacity.plan import STEPS, Plan
from infra.capacity.service_times import Line, ServiceTimes, Time
from infra.cdk.settings import PROD

PROVIDER_S = 0.02


def line(invocation_s: float, recipient_s: float) -> Line:
    """Half of it the processor's."""
    return Line(
        invocation=Time(wall_s=invocation_s, cpu_s=invocation_s / 2),
        recipient=Time(wall_s=recipient_s, cpu_s=recipient_s / 2),
    )


@pytest.fixture
def times() -> ServiceTimes:
    return ServiceTimes(
        lines={
            "preference_checker": line(0.005, 60e-6),
            "builder": line(0.004, 50e-6),
            "delivery": line(0.025, 1.5e-3),
            "delivery_email": line(0.012, 3e-3),
        },
        slices=[],
        workers=16,
        slice_size=100,
        document_s=25e-6,
        devices_s=35e-6,
        cold_start_s=dict.fromkeys(STEPS, 0.5),
        spark_recipients_s=35_000,
        said="for tests",
    )


@pytest.fixture
def plan() -> Plan:
    return Plan.of(PROD)
