"""`masscomm webhooks` calls the routes of the API, and prints the result."""

import json
from typing import Any

from cli.webhooks import app
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.customer_account import QUEUE, ROLE
from tests.support.servers.http_server import Asked


def read(request: Asked) -> Any:
    return request.command, request.path, json.loads(request.body or b"null")


def test_a_queue_is_created_with_its_role(server: AnsweringServer) -> None:
    endpoint = {"id": "ep_1", "role_arn": ROLE, "external_id": "ep_1"}
    server.answers = [(201, json.dumps({"secret": "whsec_x", "endpoint": endpoint}).encode())]
    shown = output_of(app, "create", QUEUE, "--club", "1", "--role", ROLE)
    assert "must require the external id ep_1" in shown
    body = {"club_id": 1, "url": QUEUE, "description": "", "role_arn": ROLE}
    assert server.asked == [("POST", "/v1/webhooks", body)]
