"""Processor time and memory of each process of the running chain, and the requests and records it produces."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from lab.benchmarks.naive import events as naive_events
from lab.benchmarks.processor_time import of_process
from lab.benchmarks.running_chain import RunningChain, topic_ends
from local.devstack import process
from local.devstack.stack import Stack

FUNCTIONS, SERVERS, EMULATION = "functions", "servers", "emulation"
EMITTER, HOST, PROVIDER = "emitter", "lambda host", "provider stand-in"
_SERVERS = ("kafka", "opensearch", "postgres", "registry", "connect")
_EMULATION = (EMITTER, HOST, PROVIDER)
_TIMEOUT_S = 30.0
# A value that, written to /proc/PID/clear_refs, resets the peak of the process's resident memory. Source: Linux,
# Documentation/filesystems/proc.
_RESET_PEAK = "5"


def group_of(role: str) -> str:
    """Return the group of a process: functions, servers or emulation."""
    if role in _EMULATION:
        return EMULATION
    return SERVERS if role in (*_SERVERS, "dynamodb", "localstack") else FUNCTIONS


@dataclass(frozen=True)
class Usage:
    """The totals since the processes were started."""

    # The processor time in seconds by role.
    processor_s: Mapping[str, float]
    # The number of records by topic, without the topics of change data capture and of Kafka itself.
    records: Mapping[str, int]
    # The number of requests to OpenSearch by REST action, as OpenSearch names it.
    directory_requests: Mapping[str, int]

    def since(self, before: "Usage") -> "Usage":
        return Usage(
            _difference(self.processor_s, before.processor_s),
            _difference(self.records, before.records),
            _difference(self.directory_requests, before.directory_requests),
        )


def _difference[N: (int, float)](after: Mapping[str, N], before: Mapping[str, N]) -> dict[str, N]:
    return {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}


def status(stack: Stack) -> Any:
    url = f"{stack.config.gateway_url}/-/status"
    return httpx.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status().json()


def at_rest(page: Mapping[str, Any]) -> bool:
    """Return whether a status page shows no invocation in flight and no waiting record."""
    return all(
        not mapping["in_flight"] and not any(each["lag"] or each["waiting"] for each in mapping["partitions"].values())
        for mapping in page["mappings"].values()
    )


def usage(chain: RunningChain, emitter_s: float) -> Usage:
    """Measure the usage now.

    Args:
        chain: The running chain.
        emitter_s: The processor time that this process has used to emit sends, in seconds.
    """
    spent = {EMITTER: emitter_s}
    for role, each in processes(chain.stack):
        try:
            spent[role] = spent.get(role, 0.0) + of_process(each)
        except psutil.Error:
            continue
    records = topic_ends(chain.stack.config.kafka_bootstrap, lambda name: not name.startswith(("_", "cdc")))
    return Usage(spent, records, _directory_requests(chain))


def rest(chain: RunningChain, seconds: float) -> dict[str, float]:
    """Return the processor time without load by role, in seconds per second."""
    before, began = usage(chain, 0.0), time.monotonic()
    time.sleep(seconds)
    spent, took = usage(chain, 0.0).since(before), time.monotonic() - began
    return {role: value / took for role, value in spent.processor_s.items()}


def memory_mb(chain: RunningChain) -> dict[str, float]:
    """Return the peak of the resident memory by role, since the last `reset_memory`."""
    found: dict[str, float] = {}
    for role, each in processes(chain.stack):
        found[role] = found.get(role, 0.0) + _peak_mb(each.pid)
    return found


def reset_memory(chain: RunningChain) -> None:
    """Reset the memory peaks of all processes of this user."""
    for _, each in processes(chain.stack):
        path = Path(f"/proc/{each.pid}/clear_refs")
        if os.access(path, os.W_OK):
            path.write_text(_RESET_PEAK)


def _peak_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def processes(stack: Stack) -> Iterator[tuple[str, psutil.Process]]:
    """Yield each process of a stack and of this benchmark with its role."""
    for name, function in status(stack)["functions"].items():
        for pid in function["pids"]:
            if psutil.pid_exists(pid):
                yield name, psutil.Process(pid)
    yield HOST, psutil.Process(stack.pid("lambda_host"))
    for name in stack.urls.keys() & set(_SERVERS):
        yield from ((name, each) for each in process.family(stack.pid(name)))
    for each in process.family(stack.pid("localstack")):
        yield ("dynamodb" if "LoopbackDynamoDb" in each.cmdline() else "localstack"), each
    for each in psutil.Process().children():
        command = each.cmdline()
        if "local.emulators.sns_stand_in" in command:
            yield PROVIDER, each
        elif "lab.benchmarks.naive" in command:
            yield f"naive {command[command.index('lab.benchmarks.naive') + 1]}", each
        elif "lab.benchmarks.naive.events" in command:
            yield naive_events.ROLE, each
        elif "lab.benchmarks.naive.hop" in command:
            yield f"hop {command[command.index('lab.benchmarks.naive.hop') + 1]}", each


def _directory_requests(chain: RunningChain) -> dict[str, int]:
    """Return the request counts by REST action. Source: OpenSearch, Nodes usage API."""
    url = f"{chain.stack.config.opensearch_url}/_nodes/usage/rest_actions"
    [node] = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False).raise_for_status().json()["nodes"].values()
    return {name: count for name, count in node["rest_actions"].items() if name != "nodes_usage_action"}
