"""The checks of the build server and of pre-commit are the same as those of `make`, under the same names."""

import json
import re

import yaml

from devstack.config import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()


def test_the_workflow_runs_targets_that_exist() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    chosen = workflow["jobs"]["targets"]["strategy"]["matrix"]["target"]
    targets = {target for text in re.findall(r"'(\[.*?\])'", chosen) for target in json.loads(text)}
    known = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert {"test", "demo", "audit", "licences"} <= targets <= known


def test_pre_commit_hooks_are_the_checks_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    before_commit = {hook["entry"].split(" --")[0] for hook in hooks}
    recipe = MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0].splitlines()[1:]
    in_make = {line.strip().removesuffix(" .").split(" --")[0] for line in recipe}
    assert before_commit == in_make
