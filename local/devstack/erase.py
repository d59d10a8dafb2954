"""The command `masscomm erase`: it erases one person from every store of the running stack."""

from collections.abc import Sequence

from local.devstack.config import StackConfig
from local.devstack.services.spark import run_module


def erase_person(
    config: StackConfig,
    user_id: int,
    club_id: int,
    addresses: Sequence[str],
    *,
    even_if_known: bool,
    as_json: bool = False,
) -> int:
    """Run `python -m ops.erasure` on the servers of a running stack; return its exit status."""
    options = ["--addresses=-"]
    if even_if_known:
        options.append("--even-if-known")
    if as_json:
        options.append("--json")
    return run_module(
        config, "ops.erasure", f"--user={user_id}", f"--club={club_id}", *options, standard_input="\n".join(addresses)
    )
