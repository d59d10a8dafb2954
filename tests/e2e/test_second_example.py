"""The second example is tried as docs/your-data.md describes, in a copy of the checkout with its source.yaml."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from local.devstack.config import ROOT, StackConfig
from tests.support import prose
from tests.support.until import until

COMMANDS = re.findall(
    r"^ {4}(cp examples/crm.*|MASSCOMM_STATE=/tmp/crm .*|git checkout .*)$",
    (ROOT / "docs" / "your-data.md").read_text(),
    re.MULTILINE,
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout that uses its environments."""
    folder = tmp_path / "checkout"
    for name in prose.files_of_repository():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for name in (".venv", ".devstack", "web/dist"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture
def environment(checkout: Path, one_stack_at_a_time: None) -> Iterator[Mapping[str, str]]:
    config = StackConfig.on_free_ports(checkout.parent / "crm")
    ports = {f"MASSCOMM_PORT_{name.upper()}": str(port) for name, port in asdict(config.ports).items()}
    made = {
        **psutil.Process().environ(),
        **ports,
        "MASSCOMM_STATE": str(config.state_dir),
        "PYTHONPATH": str(checkout),
    }
    yield made
    subprocess.run([sys.executable, "-m", "cli.main", "down"], cwd=checkout, env=made, check=False)


def run(command: str, checkout: Path, environment: Mapping[str, str]) -> str:
    """Run a command of the page. The state folder and the ports are those of the test."""
    words = shlex.split(re.sub(r"^MASSCOMM_STATE=\S+ ", "", command))
    if words[0] == ".venv/bin/masscomm":
        # The installed command would import the packages of this checkout.
        words[:1] = [sys.executable, "-m", "cli.main"]
    done = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_second_example_is_tried_as_documented(checkout: Path, environment: Mapping[str, str]) -> None:
    copied, up, sent, down, restored = COMMANDS
    assert restored.startswith("git checkout"), "the copy of the checkout is no repository"
    run(copied, checkout, environment)
    run(up, checkout, environment)

    shown = run(sent, checkout, environment)
    assert "Hallo Ada, dein Tarif: gold." in shown
    assert shown.count("push to user") == 1, "Blaise wants no push, and Carl no news"

    (change,) = re.findall(r"`(masscomm preferences set --user 1 [^`]+)`", (ROOT / "docs" / "your-data.md").read_text())
    run(f".venv/bin/{change}", checkout, environment)

    def applied() -> bool:
        found = run(".venv/bin/masscomm preferences show --user 1 --json", checkout, environment)
        return '"pending": false' in found

    until("the example's consumer has applied the change", applied)
    assert "push to user" not in run(sent, checkout, environment)
    run(down, checkout, environment)
