"""Runs Schemathesis with the project's checks against a server of the OpenAPI document."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from local.devstack.config import ROOT
from ops.openapi.document import OPERATIONS

DOCUMENT = ROOT / "docs" / "openapi" / "masscomm.json"
# The module with the project's own checks.
CHECKS = "tests.support.schemathesis_checks"
CONFIG = ROOT / "tests" / "support" / "inputs" / "schemathesis.toml"


def check_responses(url: str, key: str, folder: Path, *options: str, parameters: Mapping[str, object] = {}) -> None:
    """Request every route with generated data. Raises AssertionError with Schemathesis' report if a response differs
    from the document.

    Args:
        url: The address of the server.
        key: The API key of the requests.
        folder: A folder for the configuration.
        options: Further options of `st run`.
        parameters: Values that each request has, by place and name, as `path.send_id`.
    """
    config = folder / "schemathesis.toml"
    fixed = "".join(f'"{name}" = {value!r}\n' for name, value in parameters.items())
    config.write_text(f"[parameters]\n{fixed}\n{CONFIG.read_text()}")
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("st"), "--config-file", config, "run", DOCUMENT, "--url", url),
            *("--header", f"x-api-key: {key}", "--generation-with-security-parameters", "false"),
            *("--exclude-checks", "positive_data_acceptance,ignored_auth"),
            *("--generation-database", "none", "--no-color", *options),
        ],
        cwd=folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": CHECKS, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert f"Tested: {len(OPERATIONS)}" in done.stdout, done.stdout[-2_000:]
