"""MSK Connect's workers read the monolith's secret, with Kafka's own parser of configurations."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from local.devstack.service import jars, java
from local.devstack.setup import CONNECT_PLUGIN
from tests.support.servers.answering_server import answering
from tests.support.servers.http_server import Asked

NAME = "masscomm/monolith"
SECRET = {"host": "db.example", "port": 5432, "password": "p:w}d$"}


def _asked(request: Asked) -> Any:
    return request.headers["x-amz-target"], json.loads(request.body)


def _answer(status: int, document: dict[str, Any]) -> tuple[int, bytes]:
    return status, json.dumps(document).encode()


def test_connector_secrets_are_read_by_the_worker(tmp_path: Path) -> None:
    text = json.dumps(SECRET)
    with answering(_asked) as server:
        server.answers = [
            *[_answer(200, {"Name": NAME, "SecretString": text})] * 3,
            _answer(200, {"Name": NAME, "SecretString": f"not JSON: {SECRET['password']}"}),
            _answer(400, {"__type": "AccessDeniedException", "message": "not yours"}),
        ]
        fields = ("password", "port", "none", "password", "password")
        values = [f"${{secretsmanager:{NAME}:{field}}}" for field in fields]
        command = java("-cp", f"{jars('kafka')}:{CONNECT_PLUGIN}/secrets-manager/*", heap_mb=128)
        done = subprocess.run(
            [*command, str(Path(__file__).with_name("Resolved.java")), "eu-central-1", *values],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "AWS_ENDPOINT_URL_SECRETS_MANAGER": server.url,
                "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "secret",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    password, port, missing, unreadable, refused = done.stdout.splitlines()
    assert (password, port) == (SECRET["password"], str(SECRET["port"]))
    assert missing == f"the secret {NAME} has no field none"
    assert unreadable == f"the secret {NAME} is no JSON object"
    assert "not yours" in refused
    assert server.asked == [("secretsmanager.GetSecretValue", {"SecretId": NAME})] * 5
    assert str(SECRET["password"]) not in done.stderr
