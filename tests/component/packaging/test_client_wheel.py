"""The wheel of the Python client brings httpx, its requirements, and nothing else; the extra `mcp` brings a server."""

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.packaging.build import LOCK, UV
from infra.packaging.contents import ROOT


def required(name: str) -> set[str]:
    """Return a distribution with everything that it requires here, without extras."""
    found, pending = set[str](), [name]
    while pending:
        if (each := canonicalize_name(pending.pop())) not in found:
            found.add(each)
            wanted = map(Requirement, metadata.requires(each) or ())
            pending += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.nightly
def test_the_wheel_of_the_client_brings_httpx_only(tmp_path: Path) -> None:
    """The build and the installation read the package index, apart from what uv has in its cache."""
    source, environment = tmp_path / "client", tmp_path / "environment"
    shutil.copytree(ROOT / "sdk" / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
    python = environment / "bin" / "python"
    subprocess.run([UV, "build", "--quiet", "--wheel", source, "-o", tmp_path / "wheel"], check=True)
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, "-c", LOCK, wheel], check=True)
    script = (
        "from importlib import metadata; from masscomm_client import AsyncClient, Client;"
        "print(*(each.name for each in metadata.distributions()))"
    )
    printed = subprocess.run([python, "-I", "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert {canonicalize_name(name) for name in printed.stdout.split()} == {"masscomm-client"} | required("httpx")
    types = subprocess.run([python, "-I", "-c", "import masscomm_client.types"], check=False, cwd=tmp_path)
    assert types.returncode == 0
    command = environment / "bin" / "masscomm-mcp"
    variables = {"MASSCOMM_API_URL": "http://127.0.0.1:1", "MASSCOMM_API_KEY": "mc_test"}
    refused = subprocess.run([command], check=False, capture_output=True, text=True, env=variables)
    assert (refused.returncode, 'pip install "masscomm-client[mcp]"' in refused.stderr) == (2, True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", python, "-c", LOCK, f"{wheel}[mcp]"], check=True)
    subprocess.run([command], check=True, stdin=subprocess.DEVNULL, env=variables)
