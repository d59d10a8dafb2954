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
# The digests of uploaded files, of functions' versions and of images, which change with each line of the sources.
DIGEST = re.compile(
    r"\b[0-9a-f]{64}\b|(?<=CurrentVersion[0-9A-F]{8})[0-9a-f]{32}|(?<=:masscomm-)[0-9a-f]{16}|(?<=:connect-)[0-9a-f]{16}"
)


def _whole(template: dict[str, Any]) -> str:
    """Return a template without what changes while the environment stays the same: digests of sources, the order of
    resources that CDK sorts by them, and its own notes.
    """
    resources = {
        id: {name: value for name, value in resource.items() if name != "Metadata"}
        for id, resource in template["Resources"].items()
    }
    written = DIGEST.sub(lambda found: "0" * len(found[0]), json.dumps(template | {"Resources": resources}))
    return json.dumps(_sorted(json.loads(written)), indent=1, sort_keys=True) + "\n"


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        found = {name: _sorted(each) for name, each in value.items()}
        if isinstance(found.get("Resource"), list):
            found["Resource"].sort(key=json.dumps)
        return found
    return [_sorted(each) for each in value] if isinstance(value, list) else value


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
