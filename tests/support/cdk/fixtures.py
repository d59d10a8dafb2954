"""Synthesised environments. One process synthesises all of them once per session, so that Node starts once."""

import fcntl
import os
import subprocess
import sys

import pytest

from infra.cdk.config import LOCAL
from local.devstack.config import ROOT
from tests.support.cdk.synthesise import REPLACING, SYNTHESISED
from tests.support.cdk.templates import SynthesisedEnvironment


@pytest.fixture(scope="session")
def synthesised(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, SynthesisedEnvironment]:
    """The synthesised environments by name: smallest, largest, two snapshot generations, external servers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "cdk"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            # The process gets neither credentials nor a region, because a template must not depend on the account that
            # synthesises it.
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.cdk.synthesise", str(folder)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return {name: SynthesisedEnvironment(name, folder / name) for name in (*SYNTHESISED, REPLACING.name, LOCAL)}


@pytest.fixture(scope="session", params=SYNTHESISED)
def environment(
    request: pytest.FixtureRequest, synthesised: dict[str, SynthesisedEnvironment]
) -> SynthesisedEnvironment:
    return synthesised[str(request.param)]


@pytest.fixture(scope="session")
def prod(synthesised: dict[str, SynthesisedEnvironment]) -> SynthesisedEnvironment:
    return synthesised["prod"]


@pytest.fixture(scope="session")
def local(synthesised: dict[str, SynthesisedEnvironment]) -> SynthesisedEnvironment:
    """Return the environment on external servers, built from packages, with its own domain name."""
    return synthesised[LOCAL]


@pytest.fixture(scope="session")
def replacing(synthesised: dict[str, SynthesisedEnvironment]) -> SynthesisedEnvironment:
    """Return the production environment while one snapshot generation replaces another."""
    return synthesised[REPLACING.name]
