"""Commands that work on a deployed environment: modules of `infra`, which the command line does not import."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.errors import CommandError
from cli.folders import ROOT

# The variable that a task in the VPC has: the name of its environment.
_TASK = "MASSCOMM_TASK"


def run_module(module: str, environment: str, folder: Path | None, *options: str) -> int:
    """Run `python -m infra.MODULE ENVIRONMENT OPTIONS` on the environments of a folder; return its exit status."""
    configured = [] if folder is None else ["--environments", str(folder)]
    return _run(module, environment, *configured, *options)


def resources_of(environment: str) -> Mapping[str, str]:
    """Return the `prefix` of the names of an environment's resources, and its `region`.

    Raises:
        CommandError: There is no such environment.
    """
    command = [sys.executable, "-m", "infra.cdk.environments", environment]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise CommandError(done.stderr.strip())
    found: dict[str, str] = json.loads(done.stdout)
    return found


def provision(*options: str) -> int:
    """Run `python -m infra.provision OPTIONS`, in the task of provisioning; return its exit status."""
    return _run("provision", *options)


def _run(module: str, *arguments: str) -> int:
    command = [sys.executable, "-m", f"infra.{module}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def is_task() -> bool:
    """Return whether this process runs as a task in the VPC, where the servers of its environment can be reached."""
    return bool(os.environ.get(_TASK))


def run_task(environment: str, folder: Path | None, task: str, arguments: Sequence[str]) -> int:
    """Run `masscomm ARGUMENTS` as a task in the VPC of an environment; return its exit status."""
    return run_module("tasks", environment, folder, task, *arguments)
