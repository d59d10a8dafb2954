"""Measured service times of invocations, and estimates of them at the memory of a Lambda function.

`python -m lab.benchmarks.service_times --write` renews the wall times and processor times in service_times.json. Lambda
gives a function with 1,769 MB one vCPU, and a function with less memory a proportional share, which lengthens its
processor time and not its waiting time. The model assumes that a vCPU is as fast as a core of the measuring machine.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("service_times.json")
# The memory in MB with which a function has one vCPU. Source: AWS Lambda developer guide, "Configure Lambda function
# memory".
VCPU_MB = 1_769
# The share of the shorter time (waiting or computing) that is added to the longer one. One event loop sends most
# requests of a slice before the first answer arrives, and processes most answers after the last one, so the two hardly
# overlap. Measured slices (lab.benchmarks.service_times) take at most a fifth longer than this formula says.
NOT_OVERLAPPED = 1.0


# The measured functions. A recipient of `receipts` is a receipt, `receipts_ingest` reads one from AWS.
_LINES = ("preference_checker", "builder", "delivery", "delivery_email", "receipts_ingest", "receipts")


@dataclass(frozen=True, kw_only=True)
class Time:
    """A wall time in seconds, and its part that is processor time."""

    wall_s: float
    cpu_s: float

    def at(self, memory_mb: float) -> float:
        """Return the wall time in seconds in a function with this memory. One thread computes at a time, so at most one
        vCPU is used.
        """
        return max(0.0, self.wall_s - self.cpu_s) + self.cpu_s * max(1.0, VCPU_MB / memory_mb)


@dataclass(frozen=True, kw_only=True)
class Line:
    """The time of an invocation without recipients, and the additional time of each recipient."""

    invocation: Time
    recipient: Time

    def at(self, recipients: float, memory_mb: float) -> float:
        return self.invocation.at(memory_mb) + recipients * self.recipient.at(memory_mb)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The measured time of a slice of delivery (recipients published to together) at one latency of the provider."""

    provider_ms: float
    slice_s: float


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """The measured service times."""

    # The measured times by the names of _LINES.
    lines: Mapping[str, Line]
    slices: Sequence[Slice]
    workers: int
    slice_size: int
    document_s: float  # OpenSearch's processor time for reading a document by id, in seconds.
    # OpenSearch's processor time for the search of a user's devices, in seconds.
    devices_s: float
    cold_start_s: Mapping[str, float]  # The processor time of a cold start by function, in seconds.
    spark_recipients_s: float  # The recipients that the Spark job counts per second and core.
    origin: str  # The place and the date of the measurement.

    def slice_s(self, calls: float, provider_s: float, memory_mb: float, *, line: str = "delivery") -> float:
        """Return the seconds that the provider calls of a slice (recipients recorded together) take with parallel
        workers.

        The result is the longer of two times (processor time of all calls; latency of all consecutive waves of parallel
        calls) plus the part of the shorter time that does not overlap. comparison.py compares it with measured slices.
        """
        each = self.lines[line].recipient.at(memory_mb)
        waves = ceil(calls / self.workers - 1e-9)
        return max(calls * each, waves * (provider_s + each)) + NOT_OVERLAPPED * min(calls * each, waves * provider_s)


@cache
def measured(file: Path = FILE) -> ServiceTimes:
    document: dict[str, Any] = json.loads(file.read_text())
    spark = document["spark"]
    return ServiceTimes(
        lines={
            name: Line(invocation=Time(**document[name]["invocation"]), recipient=Time(**document[name]["recipient"]))
            for name in _LINES
        },
        slices=[Slice(**one) for one in document["slices"]],
        workers=document["workers"],
        slice_size=document["slice_size"],
        document_s=document["directory"]["server_cpu_s_a_document"],
        devices_s=document["directory"]["server_cpu_s_a_user_of_devices"],
        cold_start_s=document["cold_start_s"],
        spark_recipients_s=spark["events_s"] * spark["recipients_an_event"] / spark["cores"],
        origin=f"{document['command']}, {document['measured_at']}, {document['machine']}",
    )
