"""Measured service times of invocations, and their estimates at the memory of a Lambda function.

The figures are in service_times.json, which `python -m benchmarks.service_times --write` renews. They have wall time
and processor time. Lambda gives a function with 1,769 MB one vCPU, and a function with less memory a proportional
share. With a share, the processor time becomes longer, and the waiting time stays the same. A vCPU is assumed to be as
fast as a core here.
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
# Waiting and computing overlap only in part when threads run in parallel, so this share of the shorter time is added to
# the longer one. The share is fitted to the measurements of three runs of benchmarks.service_times, with deviations of
# at most about a fifth.
NOT_OVERLAPPED = 0.4


@dataclass(frozen=True, kw_only=True)
class Time:
    """A wall time, and the processor time in it, in seconds."""

    wall_s: float
    cpu_s: float

    def at(self, memory_mb: float) -> float:
        """Return the wall time in seconds in a function with this memory. Only one thread computes at a time, so
        that more than one vCPU does not help.
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
    """The measured time of one slice of delivery (recipients published to together) with one call per recipient and
    this latency of the provider.
    """

    provider_ms: float
    slice_s: float


@dataclass(frozen=True, kw_only=True)
class ServiceTimes:
    """The measured service times."""

    # The measured times of each function by its name, and of the delivery of e-mails under `delivery_email`.
    lines: Mapping[str, Line]
    slices: Sequence[Slice]
    workers: int
    slice_size: int
    document_s: float  # OpenSearch's processor time for reading a document by id, in seconds.
    # OpenSearch's processor time for the search of a user's devices, in seconds.
    devices_s: float
    cold_start_s: Mapping[str, float]  # The processor time of a cold start by function, in seconds.
    spark_recipients_s: float  # The recipients that the Spark job counts per second and core.
    origin: str  # Where and when the figures were measured.

    def slice_s(self, calls: float, provider_s: float, memory_mb: float, *, line: str = "delivery") -> float:
        """Return the seconds that the provider calls of a slice (recipients recorded together) take with parallel
        workers.

        The result is the longer one of two times (the processor time of all calls, and the provider's latency of all
        waves of calls), plus the part that does not overlap. comparison.py computes the deviation from the measured
        slices.
        """
        each = self.lines[line].recipient.at(memory_mb)
        waves = ceil(calls / self.workers - 1e-9)
        return max(calls * each, waves * (provider_s + each)) + NOT_OVERLAPPED * min(calls * each, waves * provider_s)


@cache
def measured(file: Path = FILE) -> ServiceTimes:
    """Return the measured times in the file service_times.json."""
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
        origin=f"{document['command']}, {document['measured_at']}, {document['machine']}",
    )
