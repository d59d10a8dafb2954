"""The host, its pollers and its gateway as one program over a real broker, started and stopped as the stack does."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from masscomm.stores.api_keys.port import digest_of

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]
TIMEOUT_S = 60.0


@dataclass
class Program:
    process: subprocess.Popen[str]
    url: str
    notes: Path
    topic: str
    producer: Producer

    def status(self) -> dict[str, dict[str, dict[str, object]]]:
        return dict(httpx.get(f"{self.url}/-/status", trust_env=False).json())

    def seen(self) -> list[str]:
        path = self.notes / "seen"
        return path.read_text().splitlines() if path.exists() else []

    def lag(self) -> object:
        partitions = self.status()["mappings"][f"consume-{self.topic}"]["partitions"]
        assert isinstance(partitions, dict)
        return [entry["lag"] for entry in partitions.values()]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@contextlib.contextmanager
def program(folder: Path, kafka: StackConfig, topic: str, functions: dict[str, object]) -> Iterator[Program]:
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    (folder / "functions.yaml").write_text(yaml.safe_dump({"defaults": DEFAULTS, "functions": functions}))
    ports = StackConfig.on_free_ports(folder / "state").ports
    config = {
        "functions_file": str(folder / "functions.yaml"),
        "topics_file": str(ROOT / "schemas" / "topics.yaml"),
        "generation": topic,
        "runtime_api_port": ports.runtime_api,
        "gateway_port": ports.gateway,
        "environment": {"KAFKA_BOOTSTRAP_SERVERS": kafka.kafka_bootstrap, "NOTES": str(notes)},
        "log_dir": str(folder / "logs"),
        "task_root": str(HERE),
        "mappings": {"first_backoff_s": 0.01, "last_backoff_s": 0.05},
        "schedule_s": 0.05,
        "development_key": digest_of(KEY["x-api-key"]),
    }
    (folder / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "local.emulators.lambda_host", "--config", str(folder / "config.json")]
    with (folder / "host.log").open("a") as log:
        process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{ports.gateway}"
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap})
    try:
        until(lambda: process.poll() is not None or is_ready(url))
        assert process.poll() is None, (folder / "host.log").read_text()
        yield Program(process, url, notes, topic, producer)
    finally:
        process.kill()
        process.wait()


KEY = {"x-api-key": "mc_development"}
DEFAULTS = {"timeout_s": 60, "memory_mb": 128, "concurrency": 1}


def new_topic(kafka: StackConfig) -> str:
    generation = f"g{uuid.uuid4().hex[:8]}"
    name = f"cdc.{generation}.public.users"
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return generation


@pytest.fixture
def topic(kafka: StackConfig) -> str:
    return new_topic(kafka)


def functions(topic: str) -> dict[str, object]:
    return {
        f"consume-{topic}": {
            "handler": "functions_under_test.steps.consume",
            "event_source": {"topics": ["cdc.users"], "batch_size": 10, "attempts": -1, "bisect": True},
        },
        "tick": {"handler": "functions_under_test.steps.tick", "schedule_s": 60},
        "respond": {"handler": "functions_under_test.steps.respond", "routes": ["GET /things/{id}"]},
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, kafka: StackConfig) -> Iterator[Program]:
    """A program for tests that end no process."""
    generation = new_topic(kafka)
    with program(tmp_path_factory.mktemp("shared"), kafka, generation, functions(generation)) as made:
        yield made


@pytest.fixture
def running(tmp_path: Path, kafka: StackConfig, topic: str) -> Iterator[Program]:
    with program(tmp_path, kafka, topic, functions(topic)) as made:
        yield made


def send(program: Program, *values: str) -> None:
    for value in values:
        program.producer.produce(f"cdc.{program.topic}.public.users", value)
    assert program.producer.flush(TIMEOUT_S) == 0


def test_records_reach_their_function_and_are_committed(shared: Program) -> None:
    send(shared, *(f"v{number}" for number in range(50)))
    until(lambda: len(shared.seen()) == 50)
    assert {line.split()[0] for line in shared.seen()} == {"bulk"}
    until(lambda: shared.lag() == [0, 0])


def test_requests_reach_their_function(shared: Program) -> None:
    response = httpx.get(f"{shared.url}/things/1", trust_env=False, headers=KEY)
    assert response.json() == {"path": "/things/1", "name": "respond"}
    assert httpx.get(f"{shared.url}/other", trust_env=False).status_code == 404
    assert httpx.get(f"{shared.url}/things/1", trust_env=False).status_code == 401


def test_a_schedule_invokes_its_function_again_and_again(shared: Program) -> None:
    ticks = shared.notes / "ticks"
    until(lambda: ticks.exists() and len(ticks.read_text().splitlines()) >= 3)
    assert set(ticks.read_text().splitlines()) == {"Scheduled Event tick"}


def test_kill_9_of_a_function_within_a_batch_loses_nothing(running: Program) -> None:
    send(running, "hang", *(f"v{number}" for number in range(20)))
    until((running.notes / "hanging").exists)
    (running.notes / "go").touch()
    os.kill(int((running.notes / "hanging").read_text()), signal.SIGKILL)
    # The lag may still be 0 here, because it counts only end offsets that the poller has read.
    everything = {"hang", *(f"v{number}" for number in range(20))}
    until(lambda: {line.split()[2] for line in running.seen()} == everything)
    until(lambda: running.lag() == [0, 0])
    function = running.status()["functions"][f"consume-{running.topic}"]
    assert function["crashes"] == 1
    assert function["cold_starts"] == 2


def test_sigterm_stops_cleanly_and_leaves_no_function(running: Program) -> None:
    send(running, "v")
    until(lambda: running.lag() == [0, 0])
    status = running.status()["functions"]
    pids = [pid for function in status.values() for pid in function["pids"]]  # type: ignore[attr-defined]
    assert len(pids) == 3
    running.process.terminate()
    assert running.process.wait(TIMEOUT_S) == 0
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


def test_kill_9_of_the_host_loses_nothing(tmp_path: Path, kafka: StackConfig, topic: str) -> None:
    with program(tmp_path, kafka, topic, functions(topic)) as first:
        send(first, "hang", "a", "b")
        until((first.notes / "hanging").exists)
        pid = int((first.notes / "hanging").read_text())
        first.process.kill()
        until(lambda: not psutil.pid_exists(pid))
    (tmp_path / "notes" / "go").touch()
    with program(tmp_path, kafka, topic, functions(topic)) as second:
        until(lambda: {line.split()[2] for line in second.seen()} == {"hang", "a", "b"})
        until(lambda: second.lag() == [0, 0])


def test_broken_function_is_named_and_stops_no_other(tmp_path: Path, kafka: StackConfig, topic: str) -> None:
    with program(tmp_path, kafka, topic, functions(topic)):
        pass
    nowhere = {"handler": "functions_under_test.nowhere.handler", "routes": ["GET /broken"]}
    broken = functions(topic) | {"broken": nowhere}
    (tmp_path / "functions.yaml").write_text(yaml.safe_dump({"defaults": DEFAULTS, "functions": broken}))
    config = json.loads((tmp_path / "config.json").read_text())
    command = [sys.executable, "-m", "local.emulators.lambda_host", "--config", str(tmp_path / "config.json")]
    url = f"http://127.0.0.1:{config['gateway_port']}"

    def report() -> dict[str, object]:
        with contextlib.suppress(httpx.TransportError):
            return dict(httpx.get(f"{url}/-/ready", trust_env=False).json())
        return {}

    with (tmp_path / "host.log").open("a") as log, subprocess.Popen(command, cwd=ROOT, stderr=log) as process:
        try:
            until(lambda: "broken" in str(report().get("broken")) and report()["starting"] == [])
            assert report()["ready"] is False
            assert httpx.get(f"{url}/things/1", trust_env=False, headers=KEY).status_code == 200
            assert httpx.get(f"{url}/broken", trust_env=False, headers=KEY).status_code == 502
        finally:
            process.terminate()


def test_port_in_use_is_reported_in_one_line(shared: Program) -> None:
    config = shared.notes.with_name("config.json")
    command = [sys.executable, "-m", "local.emulators.lambda_host", "--config", str(config)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert "the function host could not start" in done.stderr
    assert "Traceback" not in done.stderr
