"""The samples of the local stack: functions, mappings, requests, the logs' metrics and the servers."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from functions.catalogue import read_catalogue
from local.emulators.alarms import AlarmSources, evaluated_rules, keep_evaluating
from local.emulators.cloudwatch import AlarmStates
from local.emulators.event_source import EventSourceMapping
from local.emulators.lambda_host.pool import EnvironmentPool
from local.emulators.lambda_host.statistics import FunctionStatistics
from local.emulators.prometheus import FunctionLines
from masscomm.observability import metrics
from masscomm.observability.metric_names import DEAD_LETTER_BURSTS, METRICS_AGE

MINUTE = 60.0
RULES = {rule.name: rule for rule in evaluated_rules(read_catalogue(generation="g1"))}


class Stack:
    """The sources of a stack whose parts a test sets, on a clock that it moves."""

    def __init__(self, *names: str, **addresses: str) -> None:
        self.now_s = 100 * MINUTE
        self.statistics = FunctionStatistics()
        self.mapping = SimpleNamespace(
            spec=SimpleNamespace(name="builder", group="masscomm.builder"),
            statistics=SimpleNamespace(discarded=0),
            waiting=dict[str, int | None](),
        )
        self.mapping.oldest_ms = lambda: self.mapping.waiting
        none = {"kafka": "127.0.0.1:1"} | dict.fromkeys(
            ("directory_url", "registry_url", "connector_url"), "http://127.0.0.1:1"
        )
        self.sources = AlarmSources(
            states=AlarmStates([RULES[name] for name in names], lambda: self.now_s),
            pools={"builder": cast(EnvironmentPool, SimpleNamespace(statistics=self.statistics))},
            mappings=[cast(EventSourceMapping, self.mapping)],
            now_s=lambda: self.now_s,
            **none | addresses,
        )

    def states(self) -> Mapping[str, str]:
        """Go to the next minute, and return the state of each alarm."""
        self.now_s += MINUTE
        self.sources.states.evaluate()
        return {str(each["AlarmName"]): str(each["StateValue"]) for each in self.sources.states.describe("")}


def after(stack: Stack, minutes: int, sample: Any) -> str:
    """Return the state of the stack's only alarm after some minutes, in each of which `sample` is called."""
    stack.states()
    for _ in range(minutes):
        sample()
        states = stack.states()
    (state,) = states.values()
    return state


def test_errors_of_a_function_trigger_its_alarm() -> None:
    """Errors are counted from the start: only those since the last sample belong to a minute."""
    stack = Stack("builder-errors")

    def fail() -> None:
        stack.statistics.errors += 5
        stack.sources.sample_functions()

    assert after(stack, 3, fail) == "ALARM"
    for _ in range(3):
        stack.sources.sample_functions()
        states = stack.states()
    assert [*states.values()] == ["OK"]


def test_durations_near_the_time_limit_trigger_an_alarm() -> None:
    stack = Stack("builder-slow")

    def run() -> None:
        stack.statistics.invocations += 2
        stack.statistics.durations_ms.extend([1.0, RULES["builder-slow"].threshold])
        stack.sources.sample_functions()

    assert after(stack, 3, run) == "ALARM"
    assert after(stack, 5, stack.sources.sample_functions) == "OK"


def test_dropped_records_and_lag_trigger_alarms() -> None:
    stack = Stack("builder-dropped")
    stack.mapping.statistics.discarded = 1
    assert after(stack, 1, stack.sources.sample_functions) == "ALARM"
    assert after(stack, 1, stack.sources.sample_functions) == "OK"

    waiting = Stack("builder-lag-build")

    def wait() -> None:
        waiting.mapping.waiting = {"build": round((waiting.now_s - 901) * 1000)}
        waiting.sources.sample_functions()

    assert after(waiting, 3, wait) == "ALARM"
    waiting.mapping.waiting = {"build": None}
    assert after(waiting, 5, waiting.sources.sample_functions) == "OK"


def test_failing_and_slow_requests_trigger_alarms() -> None:
    errors = Stack("api-errors")
    assert after(errors, 5, lambda: errors.sources.requested("GET", "/v1/sends", 502, 0.1)) == "ALARM"
    slow = Stack("api-slow")
    assert after(slow, 5, lambda: slow.sources.requested("GET", "/v1/metrics", 200, 3.5)) == "ALARM"
    other = Stack("api-slow")
    assert after(other, 5, lambda: other.sources.requested("GET", "/v1/metrics/stream", 200, 20)) == "OK"


def test_metrics_of_the_logs_trigger_alarms(tmp_path: Path) -> None:
    stack = Stack("delivery-dead-letters", "metrics-stale")
    lines = FunctionLines(tmp_path, observe=stack.sources.emitted)
    stack.states()

    def emit(service: str, name: str, value: float) -> None:
        line = metrics.embedded(
            {name: value}, {"environment": "local", "service": service}, {}, now_ms=round(stack.now_s * 1000)
        )
        with (tmp_path / f"{service}.log").open("a") as file:
            file.write(f"{json.dumps(line)}\n")

    for age in (299, 300, 300, 300, 300, 300):
        emit("spark_metrics", METRICS_AGE.name, age)
        lines.read()
        states = stack.states()
    emit("delivery", DEAD_LETTER_BURSTS.name, 1)
    lines.read()
    assert states == {"masscomm-local-delivery-dead-letters": "OK", "masscomm-local-metrics-stale": "ALARM"}
    assert stack.states()["masscomm-local-delivery-dead-letters"] == "ALARM"


class Servers:
    """OpenSearch, the connector and the registry, in states that a test sets."""

    def __init__(self) -> None:
        self.status, self.blocks, self.used, self.free = "green", dict[str, Any](), 1, 100 * 1024**3
        self.tasks = ["RUNNING"]
        application = web.Application()
        application.router.add_get("/directory/_cluster/health", self.health)
        application.router.add_get("/directory/_cluster/state/blocks", self.settings)
        application.router.add_get("/directory/_nodes/stats/jvm,fs", self.nodes)
        application.router.add_get("/connector/status", self.connector)
        application.router.add_get("/registry/subjects", self.subjects)
        self.server = TestServer(application)

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": self.status})

    async def settings(self, _: web.Request) -> web.Response:
        return web.json_response({"blocks": self.blocks})

    async def nodes(self, _: web.Request) -> web.Response:
        old = {"used_in_bytes": self.used, "max_in_bytes": 100}
        node = {"jvm": {"mem": {"pools": {"old": old}}}, "fs": {"total": {"available_in_bytes": self.free}}}
        return web.json_response({"nodes": {"n": node}})

    async def connector(self, _: web.Request) -> web.Response:
        return web.json_response({"tasks": [{"state": state} for state in self.tasks]})

    async def subjects(self, _: web.Request) -> web.Response:
        return web.json_response([])


OF_SERVERS = (
    *("directory-red", "directory-blocked", "directory-memory", "directory-storage"),
    *("change-data-capture", "schema-registry", "kafka-controller"),
)


async def test_states_of_servers_trigger_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka does not answer in this test: then it has no controller."""
    monkeypatch.setattr("local.emulators.alarms._REQUEST_S", 0.1)
    servers = Servers()
    async with servers.server as server, aiohttp.ClientSession() as session:
        addresses = {f"{name}_url": str(server.make_url(f"/{name}")) for name in ("directory", "registry", "connector")}
        stack = Stack(*OF_SERVERS, **addresses)
        stack.states()

        async def states() -> dict[str, str]:
            for _ in range(5):
                await stack.sources.sample_servers(session)
                found = stack.states()
            return {name.removeprefix("masscomm-local-"): state for name, state in found.items() if state != "OK"}

        assert await states() == {"kafka-controller": "ALARM"}
        servers.status, servers.used, servers.free, servers.tasks = "red", 92, 5 * 1024**3 - 1, ["FAILED"]
        servers.blocks = {"indices": {"users": {"12": {"levels": ["write"]}}}}
        assert (await states()).keys() == set(OF_SERVERS) - {"schema-registry"}
    async with aiohttp.ClientSession() as session:
        assert (await states())["schema-registry"] == "ALARM"


async def test_alarms_are_evaluated_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.emulators.alarms._REQUEST_S", 0.1)
    stack, stopped, reads = Stack("builder-errors"), asyncio.Event(), list[int]()
    stack.now_s += 2 * MINUTE

    def read() -> None:
        reads.append(1)
        stopped.set()

    await keep_evaluating(stack.sources, read, stopped)
    assert reads == [1]
    assert [each["StateValue"] for each in stack.sources.states.describe("")] == ["OK"]


async def test_failed_round_does_not_end_the_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.emulators.alarms._REQUEST_S", 0.1)
    monkeypatch.setattr("local.emulators.alarms.SAMPLED_EVERY_S", 0)
    stack, stopped, reads = Stack("builder-errors"), asyncio.Event(), list[int]()

    def read() -> None:
        reads.append(1)
        if len(reads) == 1:
            raise OSError("a log file cannot be read")
        stopped.set()

    await keep_evaluating(stack.sources, read, stopped)
    assert [each["StateValue"] for each in stack.sources.states.describe("")] == ["OK"]
