"""The command `masscomm erase`: it erases one person from every store of the running stack."""

import subprocess
import sys
from collections.abc import Sequence

from devstack.config import ROOT, StackConfig
from devstack.service import base_environment, function_environment
from devstack.services.spark import spark_environment


def erase_person(config: StackConfig, user_id: int, club_id: int, addresses: Sequence[str], even_if_known: bool) -> int:
    """Run `python -m erasure` on the servers of a running stack; return its exit status."""
    command = [sys.executable, "-m", "erasure", f"--user={user_id}", f"--club={club_id}"]
    command += [f"--address={each}" for each in addresses]
    if even_if_known:
        command.append("--even-if-known")
    environment = {**base_environment(), **function_environment(config), **spark_environment(config)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
