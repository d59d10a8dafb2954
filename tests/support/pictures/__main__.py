"""Makes the pictures of the README from the stack that runs on this machine: `make pictures`.

The recording needs the first users of a start; the pages of the console need a broadcast that lasts some seconds, for
which more users are added.
"""

import os
import re
import sys
from pathlib import Path

import psycopg

from cli.terminal import Terminal
from examples.monolith import rows
from examples.monolith.seed import seed
from local.devstack.config import GENERATION, ROOT
from local.devstack.demo.directory import Directory
from local.devstack.demo.waiting import Waiter
from local.devstack.handle import RunningStack
from tests.support.harness.console import open_console
from tests.support.pictures.recording import draw, record
from tests.support.until import until

PICTURES = ROOT / "docs" / "pictures"
USERS = 2_000
# The width of a page, and the largest file.
WIDTH, HEIGHT, LARGEST = 1_024, 760, 200_000
COMMANDS = (
    "masscomm send --to 42,43,25,60 --data headline=Hello --dry-run",
    "masscomm send --to 42,43,25,60 --data headline=Hello --wait",
)


def main() -> int:
    """Write the pictures. Return exit status 1 if one is too large."""
    stack = RunningStack.here()
    PICTURES.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # The first send of a stack takes some seconds: each function is invoked for the first time.
    record(COMMANDS[-1:], folder=ROOT, environment={"PATH": path})
    frames = record(COMMANDS, folder=ROOT, environment={"PATH": path})
    (PICTURES / "first-send.svg").write_text(draw(frames, "A dry run and a send in a terminal"))
    _add_users(stack)
    _pages(stack)
    large = [each.name for each in PICTURES.iterdir() if each.stat().st_size > LARGEST]
    if large:
        Terminal(stderr=True).print(f"larger than {LARGEST:,} bytes: {', '.join(large)}")
    return 1 if large else 0


def _add_users(stack: RunningStack) -> None:
    """Add users to the example, and wait until the directory has them."""
    with psycopg.connect(stack.config.database_url("monolith"), autocommit=True) as monolith:
        seed(monolith, USERS)
        counted = {table: rows.count(monolith, table) for table in rows.TABLES}
    directory = Directory(stack.config.opensearch_url, GENERATION)
    try:
        Waiter(stack, Terminal()).until(
            f"{USERS:,} users in the directory", lambda: directory.progress(counted), timeout_s=120
        )
    finally:
        directory.close()


def _pages(stack: RunningStack) -> None:
    """Take a picture of *Check before sending*, and of the send in progress."""
    url = stack.config.gateway_url
    with open_console(url, "sender") as console:
        page = console.page
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        console.compose(f"1-{USERS}", title="Season tickets are here", body="Members choose their seats first.")
        button = page.get_by_role("button", name=re.compile("^Send to "))
        button.wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=PICTURES / "check.png")
        button.click()
        console.accepted()
        until("some are sent", lambda: all(console.count(each) > 100 for each in ("sent", "in_flight")), every_s=0.1)
        page.screenshot(path=PICTURES / "sending.png")


if __name__ == "__main__":
    sys.exit(main())
