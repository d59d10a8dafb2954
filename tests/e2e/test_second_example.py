"""The second example is tried as docs/your-data.md describes: MASSCOMM_SOURCE names its source.yaml."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from local.devstack.config import ROOT, StackConfig
from tests.support.until import until

PAGE = (ROOT / "docs" / "your-data.md").read_text()
VARIABLE, *COMMANDS = re.findall(r"^ {4}((?:export MASSCOMM_SOURCE|MASSCOMM_STATE=/tmp/crm ).*)$", PAGE, re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path, one_stack_at_a_time: None) -> Iterator[Mapping[str, str]]:
    config = StackConfig.on_free_ports(tmp_path / "crm")
    ports = {f"MASSCOMM_PORT_{name.upper()}": str(port) for name, port in asdict(config.ports).items()}
    name, _, value = VARIABLE.removeprefix("export ").partition("=")
    made = {**psutil.Process().environ(), **ports, "MASSCOMM_STATE": str(config.state_dir), name: value}
    yield made
    subprocess.run([sys.executable, "-m", "cli.main", "down"], cwd=ROOT, env=made, check=False)


def run(command: str, environment: Mapping[str, str]) -> str:
    """Run a command of the page. The state folder and the ports are those of the test."""
    words = shlex.split(re.sub(r"^MASSCOMM_STATE=\S+ ", "", command))
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_second_example_is_tried_as_documented(environment: Mapping[str, str]) -> None:
    up, sent, down = COMMANDS
    run(up, environment)
    # The running stack names the file to every other command.
    others = {name: value for name, value in environment.items() if name != "MASSCOMM_SOURCE"}

    shown = run(sent, others)
    assert "Hallo Ada, dein Tarif: gold." in shown
    assert shown.count("push to user") == 1, "Blaise wants no push, and Carl no news"

    (change,) = re.findall(r"`(masscomm preferences set --user 1 [^`]+)`", PAGE)
    run(f".venv/bin/{change}", others)

    def applied() -> bool:
        found = run(".venv/bin/masscomm preferences show --user 1 --json", others)
        return '"pending": false' in found

    until("the example's consumer has applied the change", applied)
    assert "push to user" not in run(sent, others)
    run(down, others)
