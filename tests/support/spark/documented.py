"""The views and the source that the documentation adds to the job."""

import os
import re
from pathlib import Path

from local.devstack.config import ROOT

_MODULES = {"metrics-views.md": "our_views.py", "metrics-sources.md": "devices.py"}


def as_the_pages_say(folder: Path) -> dict[str, str]:
    """Write the modules of the pages. Returns the variables that enable them."""
    variables = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    for page, module in _MODULES.items():
        blocks = dict(re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "internals" / page).read_text(), re.DOTALL))
        (folder / module).write_text(blocks["python"])
        name, _, value = blocks["sh"].strip().partition("=")
        variables[name] = value
    return variables
