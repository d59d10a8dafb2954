"""A function that fails at import until the file MENDED exists."""

import os
from pathlib import Path
from typing import Any

if not Path(os.environ["MENDED"]).exists():
    raise RuntimeError("not yet")


def handler(event: Any, context: Any) -> Any:
    return event
