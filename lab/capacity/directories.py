"""The cost of look-ups by directory: more nodes of OpenSearch, or tasks of directory_state beside the domain as it is.

`python -m lab.benchmarks.state --write` renews state_times.json. It has ratios of processor times in one run, because
the times themselves differ between machines; the model has those of OpenSearch.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path

from infra.cdk.config import DirectoryStateConfig
from lab.capacity.costs import a_month
from lab.capacity.limits import HEADROOM, look_ups_s
from lab.capacity.plan import Plan
from lab.capacity.service_times import ServiceTimes
from lab.capacity.workload import Workload

FILE = Path(__file__).with_name("state_times.json")
# One process of a task answers.
_VCPUS_A_TASK = 1
_COMPONENTS = ("directory (OpenSearch)", "directory_state (Fargate)")


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """The processor time of directory_state for a look-up, as a share of OpenSearch's."""

    documents: float
    devices: float
    origin: str  # The place and the date of the measurement.


@cache
def measured(file: Path = FILE) -> Ratios:
    known = json.loads(file.read_text())
    return Ratios(
        documents=known["documents"],
        devices=known["devices"],
        origin=f"{known['command']}, {known['measured_at']}, {known['machine']}",
    )


@dataclass(frozen=True, kw_only=True)
class WithState:
    """Tasks of directory_state for a load."""

    vcpus: float
    tasks: int
    # The cost of the tasks and of the domain, in US dollars a month.
    dollars: float


def in_opensearch(plan: Plan) -> float:
    """Return the cost of a plan's directory in US dollars a month."""
    return sum(cost.dollars for cost in a_month(plan) if cost.component in _COMPONENTS)


def in_state(plan: Plan, workload: Workload, times: ServiceTimes, ratios: Ratios) -> WithState:
    """Return the tasks that answer the look-ups of a load, one of them lost, beside the domain of a plan."""
    documents, devices = look_ups_s(workload, times)
    vcpus = documents * ratios.documents + devices * ratios.devices
    tasks = 1 + max(1, ceil(vcpus / (HEADROOM * _VCPUS_A_TASK)))
    environment = replace(plan.environment, directory_state=DirectoryStateConfig(tasks=tasks))
    return WithState(vcpus=vcpus, tasks=tasks, dollars=in_opensearch(replace(plan, environment=environment)))
