"""Commands that work on a deployed environment: modules of `infra`, which the command line does not import."""

import subprocess
import sys

from cli.folders import ROOT


def run_module(module: str, environment: str, *options: str) -> int:
    """Run `python -m infra.MODULE ENVIRONMENT OPTIONS`; return its exit status."""
    command = [sys.executable, "-m", f"infra.{module}", environment, *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
