"""The example receiver verifies what masscomm sends, over a real connection on this machine."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import ThreadingHTTPServer

import pytest

from examples.receive_webhooks import is_valid, server
from masscomm.channels.guarded_http import GuardedHttp
from masscomm.clock import SystemClock
from masscomm.domain.webhook_signatures import headers, secret_of
from masscomm.domain.webhooks import DeliveryStatus
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
    webhooks = Webhooks()
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
    webhooks.endpoints.stored[KEY] = replace(webhooks.stored(), url=url)
    use_case = replace(webhooks.use_case, http=GuardedHttp(timeout_s=10, loopback=True), clock=SystemClock())
    delivery = webhooks.deliver()
    use_case.sweep(lambda: 60)
    done = webhooks.now(delivery)
    assert (done.status, done.last[0].status) == (DeliveryStatus.SUCCEEDED, 204)
    webhooks.deliveries.replace(done.requested_again(done.at_ms), done)
    use_case.sweep(lambda: 60)
    assert webhooks.now(delivery).attempts == 2
    printed = [line for line in capsys.readouterr().out.splitlines() if "service" not in json.loads(line)]
    assert printed == ["{}"]
    webhooks.endpoints.stored[KEY] = replace(webhooks.stored(), secret_version=2)
    forged = webhooks.deliver("evt_2")
    use_case.sweep(lambda: 24)
    assert webhooks.now(forged).last[0].status == 400


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
