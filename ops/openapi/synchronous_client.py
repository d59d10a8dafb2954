"""Generates the synchronous Python client from the asynchronous one.

python -m ops.openapi.synchronous_client > sdk/python/masscomm_client/synchronous.py
"""

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "sdk" / "python" / "masscomm_client" / "asynchronous.py"
_REPLACED = {
    '"""The client for asyncio: the methods of Client as coroutines and asynchronous iterators."""': (
        '"""The client for synchronous code. Generated: python -m ops.openapi.synchronous_client."""'
    ),
    r"asyncio\.sleep": "time.sleep",
    r"import asyncio\n": "",
    r"\b(async|await) ": "",
    r"\bAwaitable\[None\]": "None",
    r"\bAsync(Client|BaseTransport|Iterator)\b": r"\1",
    r"\b__a(enter|exit)__\b": r"__\1__",
    r"\baclose\b": "close",
}


def synchronous_client() -> str:
    """Return the source of the module."""
    source = SOURCE.read_text()
    for pattern, text in _REPLACED.items():
        source = re.sub(pattern, text, source)
    for command in ("check --fix-only --unsafe-fixes --quiet", "format"):
        ruff = [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", str(SOURCE), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


if __name__ == "__main__":
    sys.stdout.write(synchronous_client())
