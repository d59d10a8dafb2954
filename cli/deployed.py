"""Commands that work on a deployed environment: modules of `infra`, which the command line does not import."""

import subprocess
import sys
from pathlib import Path

from cli.folders import ROOT


def run_module(module: str, environment: str, folder: Path | None, *options: str) -> int:
    """Run `python -m infra.MODULE ENVIRONMENT OPTIONS` on the environments of a folder; return its exit status."""
    configured = [] if folder is None else ["--environments", str(folder)]
    command = [sys.executable, "-m", f"infra.{module}", environment, *configured, *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
