"""The commands in docs/runbooks."""

import re
import shlex
from collections.abc import Iterator

from local.devstack.config import ROOT

RUNBOOKS = sorted(path.name for path in (ROOT / "docs" / "runbooks").glob("*.md"))


def spans(runbook: str) -> list[str]:
    """Return the texts between backticks, in which line ends are spaces."""
    text = " ".join((ROOT / "docs" / "runbooks" / runbook).read_text().split())
    return re.findall(r"`([^`]+)`", text)


def commands(runbook: str, program: str) -> Iterator[list[str]]:
    """Yield the words of each command of a program, without the program."""
    for span in spans(runbook):
        if span.startswith(f"{program} "):
            yield shlex.split(span)[len(program.split()) :]
