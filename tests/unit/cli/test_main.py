import os
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from cli import main as cli
from cli.reference import all_commands
from local.devstack import commands
from local.devstack.config import ROOT, StackConfig
from local.devstack.handle import RunningStack
from local.devstack.stack import Crash, Stack, StackError


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: sent.append(number))
    return sent


@pytest.fixture
def crashed(tmp_path: Path) -> Stack:
    stack = Stack(StackConfig.on_free_ports(tmp_path))
    stack.crashes.append(Crash("kafka", -9, "kafka.log", "the end of it"))
    stack.crashed.set()
    return stack


# Commands that print no data: they start or stop something, or print the lines of others.
_WITHOUT_DATA = {"up", "down", "logs", "demo", "images", "destroy", "clean-state", "completion"}


def test_commands_that_print_data_have_json() -> None:
    without = {
        " ".join(names)
        for names, command in all_commands().items()
        if not any("--json" in each.opts for each in command.params)
    }
    assert without == _WITHOUT_DATA


def test_a_service_that_ends_during_the_demo_ends_the_command(crashed: Stack, signals: list[int]) -> None:
    commands._end_at_crash(crashed, threading.Event())
    assert signals == [signal.SIGTERM]


def test_demo_never_writes_to_a_database_of_ones_own(crashed: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_MONOLITH", "postgresql://shop@db.example.org/shop")
    with pytest.raises(StackError, match="unset MASSCOMM_MONOLITH"):
        commands._run_demo(crashed)
    monkeypatch.delenv("MASSCOMM_MONOLITH")
    monkeypatch.setattr(commands, "example", lambda: ROOT / "examples" / "crm")
    with pytest.raises(StackError, match="unset MASSCOMM_SOURCE"):
        commands._run_demo(crashed)


def test_service_that_ends_after_the_demo_is_ignored(crashed: Stack, signals: list[int]) -> None:
    over = threading.Event()
    over.set()
    commands._end_at_crash(crashed, over)
    assert signals == []


class StartedStack:
    """A stack without services."""

    recovered, crashes, start_s, peak_mb = (), (), 0.0, 0.0

    def __init__(self, *_: object, **__: object) -> None:
        self.on_change = None

    def start(self) -> None:
        """Start nothing."""

    def stop(self) -> None:
        """Stop nothing."""


def test_start_ends_with_the_address_in_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first command and the page to read on precede it."""

    def stay(_: object) -> None:
        raise typer.Exit(0)

    config = StackConfig(tmp_path)
    monkeypatch.setattr(commands, "_config", lambda _: config)
    monkeypatch.setattr(commands, "Stack", StartedStack)
    monkeypatch.setattr(commands, "_listening", lambda _: "services")
    monkeypatch.setattr(commands, "_stay", stay)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    result = CliRunner().invoke(cli.app, ["up"])
    assert result.exit_code == 0, result.output
    first, _, read_on, address = result.output.splitlines()[-4:]
    assert first == f".venv/bin/{commands.FIRST_COMMAND}"
    page = re.search(r"docs/\S+\.md", read_on)
    assert page is not None
    assert (ROOT / page[0]).is_file()
    assert address == "http://127.0.0.1:8080/"


def help_of(*names: str) -> str:
    """Return the help of a command with its lines joined."""
    result = CliRunner().invoke(cli.app, [*names, "--help"])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("names", [(), *all_commands()], ids=" ".join)
def test_help_leads_to_a_page(names: tuple[str, ...]) -> None:
    """That its anchor exists is tested with all pages that code names (tests/unit/test_docs.py)."""
    found = re.search(r"Read on: (docs/[\w/-]+\.md)(#[\w-]+)?, or http://127\.0\.0\.1:8080/(\S+)$", help_of(*names))
    assert found is not None
    page, anchor, address = found.groups(default="")
    assert (ROOT / page).is_file()
    assert address == page.replace(".md", ".html") + anchor


def test_errors_lead_to_the_page_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MASSCOMM_STATE", str(tmp_path))
    monkeypatch.setenv("MASSCOMM_PORT_GATEWAY", "9999")
    monkeypatch.setattr("sys.argv", ["masscomm", "keys", "list"])
    assert cli.main() == 1
    error, page = capsys.readouterr().err.splitlines()
    assert "No stack runs here" in error
    assert page == "Read on: docs/access.md#api-keys, or http://127.0.0.1:9999/docs/access.html#api-keys"


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("recompute", ("recompute-check",)),
        ("query", ("query", "select 1")),
        ("erase", ("erase", "--user", "7", "--club", "3")),
    ],
)
def test_json_is_an_option_of_the_module_that_answers(
    module: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, ...]] = []
    running = SimpleNamespace(config=None)
    for name in ("of", "here"):
        monkeypatch.setattr(RunningStack, name, lambda *_: running)

    def run(_config: object, _module: str, *arguments: str, **_: object) -> int:
        given.append(arguments)
        return 0

    monkeypatch.setattr(f"local.devstack.{module}.run_module", run)
    for options in ((), ("--json",)):
        assert CliRunner().invoke(cli.app, [*words, *options]).exit_code == 0
    assert ["--json" in arguments for arguments in given] == [False, True]
