"""LocalStack creates more of the templates' resources than moto does, so that it is the base of trial deployments."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import moto
import pytest

from local.devstack.config import ROOT
from local.devstack.setup import LOCALSTACK_VENV

SNAPSHOTS = Path(__file__).parent / "snapshots"
PAGE = ROOT / "docs" / "decisions" / "055-deployed-on-localstack.md"


def types_in(files: Iterable[Path], pattern: str) -> set[str]:
    """Return the types of resources that source files name."""
    return {kind for path in files for kind in re.findall(pattern, path.read_text())}


@pytest.mark.nightly
def test_figures_of_the_decision_are_those_of_the_emulators() -> None:
    resources: Counter[str] = Counter()
    for path in SNAPSHOTS.rglob("*.txt"):
        for line in path.read_text().splitlines():
            number, kind = line.split()
            resources[kind] += int(number) if kind.startswith("AWS::") else 0
    kinds = {kind for kind, number in resources.items() if number}
    [localstack] = Path(LOCALSTACK_VENV, "lib").glob("python*/site-packages/localstack")
    created = {
        "LocalStack": types_in(localstack.rglob("*_plugin.py"), r'"(AWS::\w+::\w+)"'),
        "moto": types_in(Path(moto.__file__).parent.rglob("*.py"), r'return "(AWS::\w+::\w+)"'),
    }
    shares = {
        name: round(100 * sum(resources[kind] for kind in found & kinds) / resources.total())
        for name, found in created.items()
    }
    assert shares["LocalStack"] > shares["moto"]
    page = " ".join(PAGE.read_text().split())
    assert f"it creates {shares['LocalStack']} % of the templates' resources, moto {shares['moto']} %" in page
