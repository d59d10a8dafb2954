import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local.devstack import doctor, process
from local.devstack.config import StackConfig
from local.devstack.doctor import Finding
from local.devstack.handle import RunningStack
from local.devstack.setup import SetupError
from local.devstack.state import Started
from tests.support.servers.answering_server import answering


@pytest.fixture
def config(tmp_path: Path) -> StackConfig:
    return StackConfig.on_free_ports(tmp_path)


def test_missing_prerequisite_is_found_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise SetupError("JDK 17 is needed and no java is on PATH: install it.\nmake is needed: install it.")

    monkeypatch.setattr(doctor, "check_prerequisites", missing)
    first, second = doctor.prerequisites()
    assert first == Finding("versions", False, "JDK 17 is needed and no java is on PATH", "install it.")
    assert not second.ok


def test_missing_memory_is_found() -> None:
    assert doctor.memory(1).ok
    assert not doctor.memory(10**18).ok
    assert "End other programs" in doctor.memory(10**18).remedy


def test_taken_port_is_found_with_the_program_that_has_it(config: StackConfig) -> None:
    assert [finding.ok for finding in doctor.ports(config)] == [True]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", config.ports.kafka))
        taken.listen()
        (finding,) = doctor.ports(config)
    assert not finding.ok
    assert f"{config.ports.kafka}, for kafka, is taken by" in finding.text
    assert "masscomm up --port kafka=NUMBER" in finding.remedy


def test_service_that_has_ended_is_found() -> None:
    pid = os.getpid()
    alive = Started(pid=pid, ticks=process.start_ticks(pid) or 0, since="")
    stack = cast(RunningStack, SimpleNamespace(services={"kafka": alive, "spark": replace(alive, ticks=1)}))
    (finding,) = doctor.services(stack)
    assert (finding.ok, finding.text) == (False, "spark has ended")
    del stack.services["spark"]
    (finding,) = doctor.services(stack)
    assert finding.ok


@pytest.mark.parametrize(
    ("connector", "tasks", "text"),
    [
        ("RUNNING", [{"state": "RUNNING"}], "runs"),
        ("RUNNING", [], "UNASSIGNED"),
        ("PAUSED", [{"state": "RUNNING"}], "PAUSED"),
        ("RUNNING", [{"state": "FAILED", "trace": "no slot\n at a line"}], "FAILED no slot"),
    ],
)
def test_connector_runs_only_with_its_task(
    config: StackConfig, connector: str, tasks: list[dict[str, str]], text: str
) -> None:
    with answering(lambda _: None) as server:
        server.answers = [(200, json.dumps({"connector": {"state": connector}, "tasks": tasks}).encode())]
        port = int(server.url.rpartition(":")[2])
        finding = doctor.connector(replace(config, ports=replace(config.ports, connect=port)))
    assert (finding.text, finding.ok) == (text, text == "runs")


def test_connector_without_an_answer_is_found(config: StackConfig) -> None:
    assert "does not answer" in doctor.connector(config).text


@pytest.mark.parametrize(
    ("lag", "letters", "alarm", "problems"),
    [(0, 0, "ok", []), (5_000, 0, "ok", ["lag"]), (0, 2, "ok", ["dead letters"]), (0, 0, "alarm", ["alarms"])],
)
def test_lag_dead_letters_and_alarms_are_found(
    config: StackConfig, lag: int, letters: int, alarm: str, problems: list[str]
) -> None:
    health: dict[str, Any] = {"lag": [{"function": "builder", "topic": "build", "records": lag}], "lag_total": lag}
    health |= {"open_dead_letters": letters}
    row = {"name": "kafka-offline", "state": alarm, "description": "No leader.", "runbook": "kafka"}
    with answering(lambda _: None) as server:
        server.answers = [(200, json.dumps(each).encode()) for each in (health, {"rows": [row]})]
        port = int(server.url.rpartition(":")[2])
        found = list(doctor.backlog(replace(config, ports=replace(config.ports, gateway=port))))
    assert [finding.check for finding in found if not finding.ok] == problems
    assert all(finding.ok or "docs/runbooks/" in finding.remedy for finding in found)


def test_command_prints_problems_with_remedies_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = [Finding("memory", True, "enough"), Finding("ports", False, "9092 is taken", "Choose another.")]
    monkeypatch.setattr(doctor, "examine", lambda _: iter(findings))
    assert doctor.run(as_json=False) == 1
    assert "✗ ports: 9092 is taken\n    Choose another.\n" in capsys.readouterr().out
    assert doctor.run(as_json=True) == 1
    assert [json.loads(line)["ok"] for line in capsys.readouterr().out.splitlines()] == [True, False]
    del findings[1]
    assert doctor.run(as_json=False) == 0
