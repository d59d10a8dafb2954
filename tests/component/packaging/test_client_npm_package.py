"""The npm package of the TypeScript client has the built files, and brings lossless-json and nothing else."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.packaging.contents import ROOT

CLIENT = ROOT / "sdk" / "typescript"
_MODULES = ("client", "errors", "index", "json", "routes", "schema", "webhooks")


@pytest.mark.nightly
def test_the_npm_package_of_the_client_brings_lossless_json_only(tmp_path: Path) -> None:
    """The installation reads the package registry. `make setup` has built the files."""
    (packed,) = _json("npm", "pack", "--json", "--pack-destination", tmp_path, cwd=CLIENT)
    modules = {f"dist/{name}.{ending}" for name in _MODULES for ending in ("js", "d.ts")}
    assert {each["path"] for each in packed["files"]} == modules | {"package.json"}

    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", tmp_path / packed["filename"]], cwd=project, check=True
    )
    installed = {each.name for each in (project / "node_modules").iterdir() if not each.name.startswith(".")}
    assert installed == {"masscomm-client", "lossless-json"}
    script = 'import * as client from "masscomm-client"; console.log(JSON.stringify(Object.keys(client)))'
    names = _json("node", "--input-type=module", "-e", script, cwd=project)
    functions = {"numberOf", "readJson", "verifyWebhook", "writeJson"}
    assert set(names) == {"ApiError", "Client", "ConnectionError", "WebhookError"} | functions

    examples = [file.name for file in (CLIENT / "examples").iterdir()]
    for name in examples:
        shutil.copy(CLIENT / "examples" / name, project)
    compiler = CLIENT / "node_modules" / ".bin" / "tsc"
    options = ["--noEmit", "--strict", "--target", "ES2022", "--module", "NodeNext", "--lib", "ES2022,DOM"]
    node = ["--typeRoots", str(CLIENT / "node_modules" / "@types"), "--types", "node"]
    subprocess.run([compiler, *options, *node, *examples], cwd=project, check=True)


def _json(*command: str | Path, cwd: Path) -> Any:
    return json.loads(subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout)
