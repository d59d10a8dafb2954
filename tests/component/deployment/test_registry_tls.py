"""The registry's task, started with its deployed settings, serves TLS with its own key and no plain text."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import urllib3

from local.devstack.service import java, java_home
from local.devstack.setup import JARS
from tests.support.cdk.templates import SynthesisedEnvironment
from tests.support.until import until

pytestmark = pytest.mark.nightly
PASSWORD = "as RDS makes them: }$:"


@pytest.fixture
def registry(prod: SynthesisedEnvironment, tmp_path: Path) -> Iterator[int]:
    """Start a registry as its containers do, over a database in memory. Yields its port."""
    (task,) = prod.resources("AWS::ECS::TaskDefinition")
    containers = {each["Name"]: each for each in task.properties["ContainerDefinitions"]}
    keys, apicurio = containers["keys"], containers["apicurio"]

    def here(text: str) -> str:
        return text.replace("/tls/", f"{tmp_path}/")

    def variables(container: dict[str, Any]) -> dict[str, str]:
        plain = {
            each["Name"]: here(each["Value"]) for each in container.get("Environment", ()) if "URL" not in each["Name"]
        }
        return plain | {each["Name"]: PASSWORD for each in container["Secrets"] if "PASSWORD" in each["Name"]}

    command = [f"{java_home()}/bin/{keys['EntryPoint'][0]}", *map(here, keys["Command"])]
    subprocess.run(command, env=variables(keys), check=True, capture_output=True, timeout=60)
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    environment = variables(apicurio) | {
        "QUARKUS_HTTP_SSL_PORT": str(port),
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "REGISTRY_DATASOURCE_URL": "jdbc:h2:mem:registry",
        "REGISTRY_DATASOURCE_PASSWORD": "sa",
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*java("-jar", heap_mb=192), f"{JARS}/registry/apicurio-registry-app-2.6.13.Final-runner.jar"],
            env=environment,
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            until("the registry listens", lambda: _listens(port) or process.poll() is not None)
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            yield port
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with closing(socket.socket()) as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def test_registry_serves_only_tls_with_its_own_key(
    prod: SynthesisedEnvironment,
    registry: int,
) -> None:
    (group,) = prod.resources("AWS::ElasticLoadBalancingV2::TargetGroup")
    ready = group.properties["HealthCheckPath"]
    # The load balancer would pass on any request after an upgrade of the protocol, which a task without TLS answers
    # with 101 (RFC 7540, 3.2).
    upgrade = {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with urllib3.PoolManager(cert_reqs="CERT_NONE", assert_hostname=False, retries=False) as pool:
        with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
            assert pool.request("GET", f"https://127.0.0.1:{registry}{ready}", headers=upgrade).status == 200
        with pytest.raises(urllib3.exceptions.HTTPError):
            pool.request("GET", f"http://127.0.0.1:{registry}{ready}")
