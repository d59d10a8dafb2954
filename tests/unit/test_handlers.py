"""Importing a handler connects to nothing, and bootstrap() reports missing variables."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import functions
from masscomm.errors import Stop

ROOT = Path(next(iter(functions.__path__))).parent
HANDLERS = sorted(f"functions.{path.parent.name}.handler" for path in (ROOT / "functions").glob("*/handler.py"))
OF_THIS_CHAIN = [
    "preference_checker",
    "builder",
    "delivery",
    "receipts",
    "send_handler",
    "scheduler",
    "audience_expander",
]

IMPORT_WITHOUT_A_NETWORK = """
import socket, sys, threading

def refused(*_args, **_kwargs):
    raise SystemExit("a connection at import")

socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = refused
__import__(sys.argv[1])
if threading.active_count() != 1:
    raise SystemExit(f"a thread at import: {threading.enumerate()}")
"""


@pytest.mark.parametrize("name", HANDLERS)
def test_importing_a_handler_needs_no_environment_or_network(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT_WITHOUT_A_NETWORK, name],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", OF_THIS_CHAIN)
def test_each_missing_variable_of_a_function_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable in list(os.environ):
        if variable.isupper() and variable not in ("PATH", "HOME"):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    module = importlib.import_module(f"functions.{name}.handler")
    missing = []
    while True:
        try:
            module.bootstrap.__wrapped__()
        except Stop as error:
            variable = next(word for word in str(error).split() if word.isupper())
            assert variable not in missing
            missing.append(variable)
            monkeypatch.setenv(variable, "a@b.example" if variable == "SES_SENDER" else "127.0.0.1:1")
        else:
            break
    assert {"KAFKA_BOOTSTRAP_SERVERS", "SCHEMA_REGISTRY_URL"} <= set(missing)
    assert ("OPENSEARCH_URL" in missing) is (name not in ("send_handler", "scheduler"))
    assert ("SES_SENDER" in missing) is (name == "delivery")
