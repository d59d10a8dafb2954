"""Capacity tests use fixed service times, so that new measurements do not change their results."""

import pytest

from infra.cdk.examples import PROD
from lab.capacity.plan import STEPS, Plan
from lab.capacity.service_times import ServiceTimes
from tests.support.inputs.service_times import line


@pytest.fixture
def times() -> ServiceTimes:
    return ServiceTimes(
        lines={
            "preference_checker": line(0.005, 60e-6),
            "builder": line(0.004, 50e-6),
            "delivery": line(0.025, 1.5e-3),
            "delivery_email": line(0.012, 3e-3),
            "receipts_ingest": line(0.004, 50e-6),
            "receipts": line(0.01, 50e-6),
        },
        slices=[],
        workers=16,
        slice_size=100,
        document_s=25e-6,
        devices_s=35e-6,
        cold_start_s=dict.fromkeys(STEPS, 0.5),
        spark_recipients_s=35_000,
        origin="for tests",
    )


@pytest.fixture
def plan() -> Plan:
    return Plan.of(PROD)
