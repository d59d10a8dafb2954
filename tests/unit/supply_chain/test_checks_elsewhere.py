"""The checks of the build server and of pre-commit are the same as those of `make`, under the same names."""

import json
import re

import yaml

from local.devstack.config import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOW = ROOT / ".github" / "workflows" / "checks.yml"


def test_the_workflow_runs_targets_that_exist() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
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


def test_actions_are_pinned_by_digest_with_their_version() -> None:
    """A tag can be moved to other code: https://docs.github.com/en/actions/reference/security/secure-use."""
    actions = re.findall(r"uses: *(.+)", WORKFLOW.read_text())
    assert actions
    pinned = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [action for action in actions if not pinned.fullmatch(action)] == []


def test_audit_covers_each_kind_of_package() -> None:
    """Each file that pins packages is named in the recipe: Python's, npm's, and the bills of materials of the jars."""
    recipe = MAKEFILE.partition("\naudit:")[2].partition("\n\n")[0]
    npm = {str(lock.parent.relative_to(ROOT)) for lock in ROOT.glob("*/package-lock.json")}
    npm |= {str(lock.parent.relative_to(ROOT)) for lock in ROOT.glob("*/*/package-lock.json")}
    assert {"infra/cdk", "sdk/typescript", "web"} <= npm
    assert set(re.findall(r"npm audit --prefix (\S+)", recipe)) == npm
    bills = set(re.findall(r"-DoutputName=(\S+)", MAKEFILE))
    assert {f"{name}.json" for name in bills} == set(re.findall(r"out/sbom/(\S+)", recipe))
    assert re.search(r"pip-audit .*wildcard requirements/\*\.txt", recipe)
