"""Schemathesis finds no response of the local gateway that the OpenAPI document does not describe.

The short run has examples and boundary values, which are the same each time; `--nightly` adds random requests and
sequences of requests. Rules across fields are in no schema, so valid data may be refused (positive_data_acceptance);
such a problem names its fields. The gateway's own test checks keys (ignored_auth).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from devstack.config import ROOT
from openapi.document import OPERATIONS
from tests.support.harness import rest_api

DOCUMENT = ROOT / "docs" / "openapi" / "masscomm.json"
CONFIG = ROOT / "tests" / "support" / "inputs" / "schemathesis.toml"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--phases", "examples,coverage"), id="short"),
        pytest.param(("--max-examples", "500"), marks=pytest.mark.nightly, id="full"),
    ],
)
def test_no_response_differs_from_the_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    rest_api.build(monkeypatch)
    with rest_api.serving() as url:
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("st"), "--config-file", CONFIG, "run", DOCUMENT, "--url", url),
                *("--header", f"x-api-key: {rest_api.KEY}", "--generation-with-security-parameters", "false"),
                *("--exclude-checks", "positive_data_acceptance,ignored_auth"),
                *("--generation-database", "none", "--no-color", *options),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert f"Tested: {len(OPERATIONS)}" in done.stdout
