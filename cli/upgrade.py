"""The command `masscomm upgrade` for a deployed environment."""

import subprocess
import sys

from cli.folders import ROOT


def upgrade_deployed(environment: str, *, check: bool, as_json: bool) -> int:
    """Upgrade the servers of a deployed environment by `python -m infra.provision`; return its exit status."""
    options = [*(["--check"] if check else []), *(["--json"] if as_json else [])]
    command = [sys.executable, "-m", "infra.provision", environment, *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode
