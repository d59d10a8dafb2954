"""How long invocations take here, as measured, and how long they would take with what Lambda gives a function.

The figures are service_times.json's, which `python -m benchmarks.service_times --write` renews. What was measured is
time on the wall and of the processor: Lambda gives a function of 1,769 MB one vCPU, and a share of it below, so the
processor's part grows by that share, and what is waited for stays. A vCPU is taken to be as fast as a core here.
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
    """What an invocation takes, and what each recipient adds."""

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
    """What was measured.

    lines: by function, and `delivery_email`; document_s, devices_s: OpenSearch's own processor time for a document by
    id and for a user whose devices are searched; cold_start_s: by function, of the processor; spark_recipients_s:
    recipients a second and core; said: where the figures are from.
    """

    lines: Mapping[str, Line]
    slices: Sequence[Slice]
    workers: int
    slice_size: int
    document_s: float
    devices_s: float
    cold_start_s: Mapping[str, float]
    spark_recipients_s: float
    said: str

    def slice_s(self, calls: float, provider_s: float, memory_mb: float, *, line: str = "delivery") -> float:
        """A slice's calls, workers at once: the processor's time of all, or the provider's of each wave, whichever is
        longer, and what the two do not overlap. comparison.py says how far that is from what was measured."""
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
