"""Measured service times of invocations, and their estimates at the memory of a Lambda function.

The figures are service_times.json's, which `python -m benchmarks.service_times --write` renews. They are wall time and
processor time. Lambda gives a function of 1,769 MB one vCPU, and a share of it below: the processor time grows by that
share, and the waiting time stays. A vCPU is assumed to be as fast as a core here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("service_times.json")
# Source: AWS Lambda developer guide, "Configure Lambda function memory".
VCPU_MB = 1_769
# Threads compute and wait at the same time, but not as well as they might: this share of the shorter of the two is
# added. Fitted to the slices of three runs of benchmarks.service_times, of which it leaves about a fifth at most.
NOT_OVERLAPPED = 0.4


@dataclass(frozen=True, kw_only=True)
class Time:
    """Seconds on the wall, of which so many of the processor."""

    wall_s: float
    cpu_s: float

    def at(self, memory_mb: float) -> float:
        """Seconds in a function of that size; one thread has the processor at a time, so more than one vCPU is idle."""
        return max(0.0, self.wall_s - self.cpu_s) + self.cpu_s * max(1.0, VCPU_MB / memory_mb)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Time of an invocation, and of each recipient in addition."""

    invocation: Time
    recipient: Time

    def at(self, recipients: float, memory_mb: float) -> float:
        return self.invocation.at(memory_mb) + recipients * self.recipient.at(memory_mb)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A slice of delivery, a call each recipient, at a provider that takes so long for each."""

    provider_ms: float
    slice_s: float


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """The measured times."""

    lines: Mapping[str, Line]  # by function, and `delivery_email`
    slices: Sequence[Slice]
    workers: int
    slice_size: int
    document_s: float  # OpenSearch's processor time for a document by id
    devices_s: float  # OpenSearch's processor time for the search of a user's devices
    cold_start_s: Mapping[str, float]  # processor time, by function
    spark_recipients_s: float  # recipients a second and core
    said: str  # source of the figures

    def slice_s(self, calls: float, provider_s: float, memory_mb: float, *, line: str = "delivery") -> float:
        """Seconds of a slice's calls, with parallel workers.

        The longer of the processor time of all calls and the provider's time of each wave, plus the part that does not
        overlap. comparison.py has the deviation from the measured slices.
        """
        each = self.lines[line].recipient.at(memory_mb)
        waves = ceil(calls / self.workers - 1e-9)
        return max(calls * each, waves * (provider_s + each)) + NOT_OVERLAPPED * min(calls * each, waves * provider_s)


@cache
def measured(file: Path = FILE) -> ServiceTimes:
    """The figures of the file."""
    document: dict[str, Any] = json.loads(file.read_text())
    spark = document["spark"]
    return ServiceTimes(
        lines={
            name: Line(invocation=Time(**document[name]["invocation"]), recipient=Time(**document[name]["recipient"]))
            for name in ("preference_checker", "builder", "delivery", "delivery_email")
        },
        slices=[Slice(**one) for one in document["slices"]],
        workers=document["workers"],
        slice_size=document["slice_size"],
        document_s=document["directory"]["server_cpu_s_a_document"],
        devices_s=document["directory"]["server_cpu_s_a_user_of_devices"],
        cold_start_s=document["cold_start_s"],
        spark_recipients_s=spark["events_s"] * spark["recipients_an_event"] / spark["cores"],
        said=f"{document['command']}, {document['measured_at']}, {document['machine']}",
    )
