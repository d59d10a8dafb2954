"""The templates of the smallest environment, and the resources of the largest: a difference is shown line by line in a
review. `make snapshots` renews the files; `make check` runs cfn-lint over the templates (.cfnlintrc.yaml).
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cdk.templates import SynthesisedEnvironment

FOLDER = Path(__file__).parent / "snapshots"
RENEW = "MASSCOMM_RENEW_SNAPSHOTS"
# The digest of an uploaded file, which changes with each line of the sources in it.
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def _whole(template: dict[str, Any]) -> str:
    """Return a template without what changes without the environment: digests of sources, and CDK's own notes."""
    resources = {
        id: {name: value for name, value in resource.items() if name != "Metadata"}
        for id, resource in template["Resources"].items()
    }
    written = json.dumps(template | {"Resources": resources}, indent=1, sort_keys=True)
    return DIGEST.sub("0" * 64, written) + "\n"


def _listed(template: dict[str, Any]) -> str:
    """Return the resources of a template: one line for each type, with its number."""
    kinds = Counter(resource["Type"] for resource in template["Resources"].values())
    return "".join(f"{count:4} {kind}\n" for kind, count in sorted(kinds.items()))


def test_resources_of_each_stack_agree_with_the_snapshot(environment: SynthesisedEnvironment) -> None:
    form, suffix = (_whole, ".json") if environment.name == "small" else (_listed, ".txt")
    found = {stack: form(template) for stack, template in environment.templates().items()}
    folder = FOLDER / environment.name
    if os.environ.get(RENEW):
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for stack, text in found.items():
            (folder / f"{stack}{suffix}").write_text(text)
        pytest.skip("renewed")
    stored = {path.stem: path.read_text() for path in folder.iterdir()}
    assert found == stored, f"`make snapshots` renews tests/unit/infra/snapshots/{environment.name}"
