"""The resources of each stack. A difference is shown line by line; `make snapshots` renews the files."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support.cdk.templates import SynthesisedEnvironment

FOLDER = Path(__file__).parent / "snapshots"
RENEW = "MASSCOMM_RENEW_SNAPSHOTS"


def listed(environment: SynthesisedEnvironment) -> dict[str, str]:
    """Return the resources of each stack: one line for each type, with its number."""
    found = {}
    for stack, template in environment.templates().items():
        kinds = Counter(resource["Type"] for resource in template["Resources"].values())
        found[stack] = "".join(f"{count:4} {kind}\n" for kind, count in sorted(kinds.items()))
    return found


def test_resources_of_each_stack_agree_with_the_snapshot(environment: SynthesisedEnvironment) -> None:
    found = listed(environment)
    folder = FOLDER / environment.name
    if os.environ.get(RENEW):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.txt"):
            old.unlink()
        for stack, text in found.items():
            (folder / f"{stack}.txt").write_text(text)
        pytest.skip("renewed")
    stored = {path.stem: path.read_text() for path in folder.glob("*.txt")}
    assert found == stored, f"`make snapshots` renews tests/unit/infra/snapshots/{environment.name}"
