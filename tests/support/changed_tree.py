"""Copies the tree and changes files in the copy, to test what derives from a list after an entry is added."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.devstack.config import ROOT

PACKAGES = (
    *(
        "masscomm",
        "functions",
        "schemas",
        "spark_events",
        "spark_metrics",
        "cli",
        "ops",
        "local",
        "infra",
        "lab",
        "examples",
        "docs",
    ),
    "tests",
)


def changed_tree(folder: Path, changes: Mapping[str, tuple[str, str]], added: Mapping[str, str] | None = None) -> Path:
    """Return a folder with every package; unchanged files are links.

    Args:
        folder: An empty folder.
        changes: For each changed file, a text that occurs in it once, and its replacement.
        added: The contents of new files.
    """
    for package in PACKAGES:
        (folder / package).symlink_to(ROOT / package)
    for path, (old, new) in changes.items():
        text = (ROOT / path).read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        _write(folder, path, text.replace(old, new))
    for path, text in (added or {}).items():
        _write(folder, path, text)
    return folder


def _write(folder: Path, path: str, text: str) -> None:
    *parents, name = Path(path).parts
    here = folder
    for parent in parents:
        here /= parent
        if here.is_symlink():
            there = here.resolve()
            here.unlink()
            here.mkdir()
            for child in there.iterdir():
                if child.name != "__pycache__":
                    (here / child.name).symlink_to(child)
    (here / name).unlink(missing_ok=True)
    (here / name).write_text(text)


def printed_json(folder: Path, script: str, **environment: str) -> Any:
    """Run a script in a folder's tree, with these environment variables, and return the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
