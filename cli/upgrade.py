"""The command `masscomm upgrade` for a deployed environment."""

import subprocess
import sys

from cli.folders import ROOT


def upgrade_deployed(environment: str, *, check: bool) -> int:
    """Upgrade the servers of a deployed environment by `python -m infra.provision`; return its exit status."""
    command = [sys.executable, "-m", "infra.provision", environment, *(["--check"] if check else [])]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
