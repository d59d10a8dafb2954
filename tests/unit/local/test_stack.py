"""Start, watch and stop a stack, with services of a few lines."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from local.devstack import process, state
from local.devstack import stack as stack_module
from local.devstack.config import ROOT, StackConfig
from local.devstack.service import Service, Task
from local.devstack.stack import Stack, StackError
from local.devstack.state import AlreadyRunningError, RunState
from tests.unit.local.small import DIES_AT_ONCE, LISTENS, STUBBORN, ending_file, one, pair


@pytest.fixture
def config(tmp_path: Path) -> StackConfig:
    return StackConfig.on_free_ports(tmp_path / "state")


def no_tasks(_: StackConfig) -> list[Task]:
    return []


def stack_of(config: StackConfig, catalogue: Callable[[StackConfig], dict[str, Service]]) -> Stack:
    return Stack(config, catalogue=catalogue, tasks=no_tasks)


def running(pid: int) -> bool:
    return process.start_ticks(pid) is not None


def test_dependents_start_after_and_end_before_dependencies(config: StackConfig) -> None:
    ready: list[str] = []
    stack = Stack(
        config,
        catalogue=pair,
        tasks=no_tasks,
        on_change=lambda name, state, _text: ready.append(name) if state == "ready" else None,
    )
    with stack:
        pids = [stack.pid("back"), stack.pid("front")]
    assert ready == ["back", "front"]
    assert ending_file(config).read_text().split() == ["front", "back"]
    assert not any(running(pid) for pid in pids)


@pytest.mark.parametrize("exists", [True, False])
def test_discarded_jvm_ends_politely_to_write_its_archive(config: StackConfig, *, exists: bool) -> None:
    """Python ignores the options of a JVM. A JVM whose archive exists is killed."""
    archive = config.state_dir.with_suffix(".jsa")
    if exists:
        archive.touch()

    def jvm(config: StackConfig) -> dict[str, Service]:
        return {"back": replace(pair(config)["back"], class_archive=archive)}

    with Stack(config, catalogue=jvm, tasks=no_tasks, discard=True) as stack:
        pid = stack.pid("back")
    assert ending_file(config).exists() is not exists
    assert not running(pid)


def test_only_requested_services_start_with_their_dependencies(config: StackConfig) -> None:
    with Stack(config, ["back"], catalogue=pair, tasks=no_tasks) as stack:
        assert list(stack.urls) == ["back"]
        stack.ensure("front")
        assert set(stack.urls) == {"back", "front"}


def test_failed_task_is_reported_and_all_services_end(config: StackConfig) -> None:
    def fail() -> None:
        raise ValueError("the server said no")

    stack = Stack(
        config, catalogue=pair, tasks=lambda _: [Task(name="topics", pending=list, run=fail, depends_on=("back",))]
    )
    with pytest.raises(StackError, match="topics failed: the server said no"):
        stack.start()
    assert process.marked(config.state_dir) == []


def test_service_that_ends_during_start_is_named_with_its_log(config: StackConfig) -> None:
    with pytest.raises(StackError, match=r"only ended while it started \(status 7\)") as caught:
        stack_of(config, lambda each: one(each, DIES_AT_ONCE)).start()
    assert "no configuration found" in str(caught.value)


def test_taken_port_is_reported_before_any_service_starts(config: StackConfig) -> None:
    with socket.create_server(("127.0.0.1", config.ports.registry)), pytest.raises(StackError) as caught:
        stack_of(config, pair).start()
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(config.ports.registry), "front", "--port registry=", "MASSCOMM_PORT_REGISTRY"):
        assert part in message
    assert not config.log("back").exists(), "a service was started although a port was taken"


def test_each_taken_port_is_reported(config: StackConfig) -> None:
    ports = config.ports
    with (
        socket.create_server(("127.0.0.1", ports.registry)),
        socket.create_server(("127.0.0.1", ports.kafka)),
        pytest.raises(StackError) as caught,
    ):
        stack_of(config, pair).start()
    named = [line.split(",")[0] for line in str(caught.value).splitlines()]
    assert sorted(named) == sorted([f"Port {ports.registry}", f"Port {ports.kafka}"])


def test_a_crash_is_noticed_and_shows_the_log(config: StackConfig) -> None:
    with stack_of(config, pair) as stack:
        os.kill(stack.pid("front"), signal.SIGKILL)
        assert stack.crashed.wait(LONG_S)
        crash = str(stack.crashes[0])
    assert "front ended (killed by signal 9)" in crash
    assert "serving" in crash


def test_stopped_service_restarts_and_is_watched_again(config: StackConfig) -> None:
    with stack_of(config, pair) as stack:
        before = stack.pid("back")
        stack.kill("back")
        assert not running(before)
        stack.restart("back")
        assert stack.pid("back") != before
        assert not stack.crashed.is_set()
        os.kill(stack.pid("back"), signal.SIGKILL)
        assert stack.crashed.wait(LONG_S), "a restarted service is watched again"


def test_a_service_that_ends_is_started_again(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "REVIVE_FIRST_S", 0.05)
    said: list[str] = []
    made: list[str] = []
    tasks = [Task(name="topics", pending=list, run=lambda: made.append("topics"), depends_on=("front",))]
    with Stack(config, catalogue=pair, tasks=lambda _: tasks) as stack:
        stack.keep_up(said.append)
        before, others = stack.pid("front"), stack.pid("back")
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: len(made) == 2 and not stack.crashes)
        assert stack.pid("front") != before
        assert stack.pid("back") == others
    assert made == ["topics", "topics"]
    (line,) = said
    assert line.startswith("front ended (killed by signal 9); starting it again in ")
    assert str(config.log("front")) in line
    assert process.marked(config.state_dir) == []


def test_restart_delay_doubles_while_a_service_fails(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "REVIVE_FIRST_S", 0.02)
    monkeypatch.setattr(stack_module, "REVIVE_LAST_S", 0.05)
    said: list[str] = []
    with stack_of(config, lambda each: one(each, LISTENS)) as stack:
        stack.keep_up(said.append)
        good = stack.known["only"]
        stack.known["only"] = one(config, DIES_AT_ONCE)["only"]
        os.kill(stack.pid("only"), signal.SIGKILL)
        wait_until(lambda: len(said) >= 4)
        assert stack._revive_after_s == {"only": 0.05}
        assert [crash.service for crash in stack.crashes] == ["only"]
        stack.known["only"] = good
        wait_until(lambda: not stack.crashes)
    assert "only ended while it started (status 7)" in said[1]


def test_service_that_stayed_up_has_its_first_restart_delay(
    config: StackConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "REVIVED_AFTER_S", 0.0)
    monkeypatch.setattr(stack_module, "REVIVE_FIRST_S", 0.01)
    said: list[str] = []
    with stack_of(config, lambda each: one(each, LISTENS)) as stack:
        stack.keep_up(said.append)
        for times in (1, 2, 3):
            os.kill(stack.pid("only"), signal.SIGKILL)
            wait_until(lambda times=times: len(said) == times and not stack.crashes)  # type: ignore[misc]
        assert stack._revive_after_s == {"only": 0.02}


def test_service_that_ended_before_keep_up_is_started(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "REVIVE_FIRST_S", 0.01)
    with stack_of(config, pair) as stack:
        os.kill(stack.pid("front"), signal.SIGKILL)
        assert stack.crashed.wait(LONG_S)
        stack.keep_up(lambda _: None)
        wait_until(lambda: not stack.crashes)


def test_stopping_stack_restarts_no_service(config: StackConfig) -> None:
    said: list[str] = []
    with stack_of(config, pair) as stack:
        stack.keep_up(said.append)
        os.kill(stack.pid("front"), signal.SIGKILL)
        wait_until(lambda: bool(said))
    assert process.marked(config.state_dir) == []


def test_service_that_ignores_sigterm_is_killed_with_children(config: StackConfig) -> None:
    stack = stack_of(config, lambda each: one(each, STUBBORN))
    stack.start()
    family = process.family(stack.pid("only"))
    assert len(family) == 2
    stack.stop()
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family)


def test_second_stack_is_refused_with_pid_and_start_of_the_first(config: StackConfig) -> None:
    with stack_of(config, pair):
        holder = RunState(config).holder()
        assert holder is not None
        with pytest.raises(AlreadyRunningError) as caught:
            stack_of(config, pair).start()
        assert str(holder["pid"]) in str(caught.value)
        assert holder["since"] in str(caught.value)
        with pytest.raises(AlreadyRunningError):
            RunState(config).clean()
    with stack_of(config, pair):
        pass


# A generous time-out in seconds: a busy machine delays even steps without computation.
LONG_S = 60
OWNER = dedent("""
    import signal, sys, threading
    from pathlib import Path
    from local.devstack.config import StackConfig, Ports
    from local.devstack.stack import Stack
    from tests.unit.local.small import {catalogue}
    config = StackConfig.from_dict({config!r})
    # A shell that starts the tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stack = Stack(config, catalogue={call}, tasks=lambda _: [])
    stack.start()
    print(*(stack.pid(each) for each in stack.urls), flush=True)
    threading.Event().wait()
""")


def owner(config: StackConfig, catalogue: str, call: str) -> subprocess.Popen[str]:
    """Start another process that runs a stack; its first line of output has the pids of the stack's services."""
    script = OWNER.format(config=config.as_dict(), catalogue=catalogue, call=call)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def pids_of(other: subprocess.Popen[str]) -> list[int]:
    assert other.stdout is not None
    return [int(pid) for pid in other.stdout.readline().split()]


def test_services_end_when_their_stack_is_killed(config: StackConfig) -> None:
    with owner(config, "pair", "pair") as other:
        services = [psutil.Process(pid) for pid in pids_of(other)]
        other.kill()
    _, alive = psutil.wait_procs(services, timeout=LONG_S)
    assert alive == []


def test_processes_left_by_a_killed_stack_are_ended(config: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "ORPHAN_GRACE_S", 0.2)
    with owner(config, "one, STUBBORN", "lambda each: one(each, STUBBORN)") as other:
        leader, *remaining = [each for pid in pids_of(other) for each in process.family(pid)]
        assert len(remaining) == 1
        # Kill the stack and the service's parent process, so that the service's child is an orphan.
        other.kill()
        leader.kill()
    assert all(each.is_running() for each in remaining), "it ignores SIGTERM, so the test needs a running child"
    unrelated = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with stack_of(config, pair) as stack:
            assert len(stack.recovered) == 1
        assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in remaining)
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()


def test_process_that_reuses_a_recorded_pid_is_not_ended(config: StackConfig) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        with stack_of(config, pair) as stack:
            record = RunState(config).services()
            # The record has a running process's pid with another start time: the pid was reused after the service
            # ended.
            record["back"].pid = bystander.pid
            record["back"].ticks = (process.start_ticks(bystander.pid) or 0) - 1
            started = record
            del stack
        RunState(config).write(started)
        with stack_of(config, pair) as stack:
            assert stack.recovered == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_ctrl_c_during_start_leaves_no_process(config: StackConfig) -> None:
    with owner(config, "one", "lambda each: one(each, 'import signal; signal.pause()')") as other:
        wait_until(lambda: process.marked(config.state_dir) != [])
        services = process.marked(config.state_dir)
        other.send_signal(signal.SIGINT)
        assert other.wait(LONG_S) != 0
    assert services
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in services)


def wait_until(condition: Callable[[], bool]) -> None:
    pause, deadline = threading.Event(), time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def test_memory_counts_every_process_and_keeps_the_peak(config: StackConfig) -> None:
    with stack_of(config, pair) as stack:
        both = stack.memory_mb()
        assert both > 10
        stack.kill("front")
        assert 0 < stack.memory_mb() < both
        assert stack.peak_mb >= both


def test_state_and_password_are_readable_by_their_owner_only(config: StackConfig) -> None:
    with stack_of(config, pair):
        assert (RunState(config).path.stat().st_mode & 0o077) == 0
        config.password  # noqa: B018 - made by asking
        assert ((config.run_dir / "postgres-password").stat().st_mode & 0o077) == 0
