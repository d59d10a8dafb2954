"""A part of the local stack is killed and started again on its data. Each night, tests/e2e does this to the whole."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import httpx
import psutil
from confluent_kafka.admin import AdminClient

from local.devstack import process
from local.devstack.config import ROOT, StackConfig
from local.devstack.state import RunState
from tests.support.harness.stack_part import stack_of

# Another process starts the stack, so that it can be killed with its services.
OWNER = dedent("""
    import threading
    from local.devstack.config import StackConfig
    from tests.support.harness.stack_part import stack_of
    with stack_of(StackConfig.from_dict({config!r})):
        print("ready", flush=True)
        threading.Event().wait()
""")


@contextmanager
def owner(config: StackConfig) -> Iterator[subprocess.Popen[str]]:
    script = OWNER.format(config=config.as_dict())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started


def topics(config: StackConfig) -> set[str]:
    return set(AdminClient({"bootstrap.servers": config.kafka_bootstrap}).list_topics(timeout=10).topics)


def test_killed_stack_recovers_stored_data(tmp_path: Path) -> None:
    config = StackConfig.on_free_ports(tmp_path / "state")
    url = f"{config.opensearch_url}/device_state/_doc/7"
    with owner(config) as started:
        existing = topics(config)
        httpx.put(url, params={"refresh": "true"}, json={"endpoint_arn": "arn:of:a:run:before"}).raise_for_status()
        httpx.put(f"{config.opensearch_url}/users-g1/_doc/7", json={"club_id": 1}).raise_for_status()
        killed = process.marked(config.state_dir)
        started.kill()
        for each in killed:
            if each.is_running():
                each.kill()
        psutil.wait_procs(killed, timeout=20)
    assert len(existing) > 1

    with stack_of(config):
        assert existing <= topics(config)
        assert httpx.get(f"{config.opensearch_url}/users-g1/_doc/7").json()["found"]
        # LocalStack has lost its endpoints, so the directory must no longer name them.
        assert httpx.get(url).status_code == httpx.codes.NOT_FOUND
    assert process.marked(config.state_dir) == []
    assert RunState(config).holder() is None
