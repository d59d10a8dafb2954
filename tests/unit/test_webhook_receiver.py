"""The example receiver verifies what masscomm sends, over a real connection on this machine."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer

import pytest

from examples.receive_webhooks import is_valid, server
from masscomm.channels.kept_alive_http import KeptAliveHttp
from masscomm.clock import SystemClock
from masscomm.domain.webhook_signatures import headers, secret_of
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.webhooks import KEY, Webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW_S = 1_614_265_330


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    webhooks = Webhooks()
    secret = secret_of(webhooks.keys.now(), key_id="1", endpoint_id=KEY.id, version=1)
    made = server([secret], 0)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(10)


def test_the_example_receives_an_event_once(receiver: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]) -> None:
    sender = WebhookSender()
    gateway = replace(
        sender.use_case.gateway, http=KeptAliveHttp(loopback=True), keys=Webhooks().keys, clock=SystemClock()
    )
    sender.use_case = replace(sender.use_case, gateway=gateway)
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
    sender.endpoints.stored[KEY] = replace(sender.endpoints.stored[KEY], url=url)
    request = sender.request([occurred("e1")])
    for _ in range(2):
        assert sender.send(request) == []
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event_id"] for each in printed if "service" not in each] == ["e1"]
    sender.clock.advance(2)
    sender.endpoints.stored[KEY] = replace(sender.endpoints.stored[KEY], secret_version=2)
    sender.send(sender.request([occurred("e2")]))
    assert [(event, status) for event, _, _, status in sender.results()] == [("e1", 204), ("e2", 400)]


def test_the_example_refuses_other_signatures_and_times() -> None:
    body = b'{"test": 2432232314}'
    signed = dict(headers([SECRET], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_s=NOW_S, body=body))
    assert is_valid([SECRET], signed, body, NOW_S + 299)
    assert is_valid(
        ["whsec_AAAA", SECRET], signed | {"webhook-signature": f"v1,x {signed['webhook-signature']}"}, body, NOW_S
    )
    assert not is_valid([SECRET], signed, body, NOW_S + 301)
    assert not is_valid([SECRET], signed, body, NOW_S - 301)
    assert not is_valid([SECRET], signed, body + b" ", NOW_S)
    assert not is_valid(["whsec_AAAA"], signed, body, NOW_S)
    for name, value in (("webhook-id", "msg_x"), ("webhook-timestamp", str(NOW_S + 1)), ("webhook-timestamp", "x")):
        assert not is_valid([SECRET], signed | {name: value}, body, NOW_S)
    assert not is_valid([SECRET], {}, body, NOW_S)
