"""masscomm's own image has everything that its commands import."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.cdk.code import image_files
from infra.packaging.contents import image_distributions
from local.devstack.config import ROOT

# Prints the files of the checkout that importing a module reads.
_FOREIGN = """
import importlib, sys
importlib.import_module(sys.argv[1])
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
print([file for file in files if file.startswith(sys.argv[2]) and "/.venv/" not in file])
"""


@pytest.mark.parametrize("module", ["directory_state.processes", "infra.provision", "cli.main"])
def test_commands_import_files_of_the_image_only(module: str, tmp_path: Path) -> None:
    for name, content in image_files().items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", _FOREIGN, module, f"{ROOT}/"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr[-2000:]


def test_image_has_the_libraries_of_its_commands() -> None:
    assert image_distributions() >= {"aiohttp", "boto3", "confluent-kafka", "cryptography", "lmdb", "typer"}
