"""Runs and provisions an earlier version of this repository."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from local.devstack.config import ROOT, StackConfig
from local.devstack.provision import provisioning
from local.devstack.service import Service, Task
from local.devstack.services import all_services
from masscomm.directory.chosen import OPENSEARCH
from tests.support.fault_stack.stack import FaultStack

# Version 0.1.0, the first one with users: later ones read its stored data. A clone may lack the tag.
FIRST_VERSION = "5965bc7eafd59b128b9dc46a3843c9d6bb60d31e"

_PROVISION = """
import json, sys
from local.devstack.config import StackConfig
from local.devstack.provision import provisioning
[task] = [each for each in provisioning(StackConfig.from_dict(json.loads(sys.argv[2]))) if each.name == sys.argv[1]]
task.run()
"""
_CONFIG = """
import json, sys
from local.devstack.config import StackConfig
from local.devstack.services.lambda_host import service
[text] = [text for path, text in service(StackConfig.from_dict(json.loads(sys.argv[1]))).files.items()]
print(text)
"""
_PORTS = """
import json
from dataclasses import fields
from local.devstack.config import Ports
print(json.dumps([each.name for each in fields(Ports)]))
"""
_HOST = """
import runpy, sys
sys.path[0] = sys.argv.pop(1)
runpy.run_module("local.emulators.lambda_host", run_name="__main__")
"""
# Settings of the function host that FaultStack adds.
_ADDED = {"task_root", "mappings"}


@contextmanager
def tree_of(version: str, folder: Path) -> Iterator[Path]:
    """Check out a tag or a commit into a temporary worktree until the block ends.

    Raises:
        LookupError: The history does not have it, as in a shallow clone.
    """
    found = subprocess.run(
        ["git", "merge-base", "--is-ancestor", version, "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        raise LookupError(f"The history of HEAD does not have {version}: {found.stderr.strip()}")
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), version], cwd=ROOT, check=True)
    try:
        for name in (".venv", ".devstack"):
            (folder / name).symlink_to(ROOT / name)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def _values_for(tree: Path, config: StackConfig) -> str:
    """Return the JSON of a configuration with the ports that the code of a tree knows."""
    found = subprocess.run([sys.executable, "-c", _PORTS], cwd=tree, check=True, capture_output=True, text=True)
    ports = {name: getattr(config.ports, name) for name in json.loads(found.stdout)}
    return json.dumps(config.as_dict() | {"ports": ports})


def provisioned_by(tree: Path, config: StackConfig) -> list[Task]:
    """Provision servers with the code and the schemas of a tree."""

    def done(name: str) -> None:
        command = [sys.executable, "-c", _PROVISION, name, _values_for(tree, config)]
        subprocess.run(command, cwd=tree, check=True)

    tasks = {task.name: replace(task, run=partial(done, task.name)) for task in provisioning(config)}
    # Earlier versions have both in one task.
    tasks["aws"] = tasks["aws"].after(*tasks["aws"].depends_on, "kafka", "indices")
    # The first version has no such task.
    for name in ("endpoints", "queues"):
        tasks[name] = replace(tasks[name], run=lambda: None)
    return list(tasks.values())


class EarlierStack(FaultStack):
    """A stack whose functions, host, gateway, job and provisioning begin with the code of an earlier tree."""

    # The first version does not have the directory's state.
    FED = OPENSEARCH

    def __init__(self, folder: Path, tree: Path) -> None:
        super().__init__(folder, code=tree, tasks=partial(provisioned_by, tree))

    def _services(self, config: StackConfig) -> dict[str, Service]:
        services = super()._services(config)
        # The first version verifies its sender by version 1 of SES.
        environment = dict(services["localstack"].environment)
        environment["SERVICES"] += ",ses"
        services["localstack"] = replace(services["localstack"], environment=environment)
        return services

    def _host(self, service: Service) -> Service:
        # Use the catalogue's service, because the running one has the settings of the other tree's host.
        made = super()._host(all_services(self.config)[service.name])
        if self.code == ROOT:
            return made
        values = _values_for(self.code, self.config)
        result = subprocess.run(
            [sys.executable, "-c", _CONFIG, values],
            cwd=self.code,
            check=True,
            capture_output=True,
            text=True,
        )
        known = json.loads(result.stdout).keys() | _ADDED
        files = {
            path: json.dumps({name: value for name, value in json.loads(text).items() if name in known})
            if path.name == "config.json"
            else text
            for path, text in made.files.items()
        }
        [config] = [path for path in files if path.name == "config.json"]
        command = [sys.executable, "-c", _HOST, str(self.code), "--config", str(config)]
        return replace(made, files=files, command=command)
