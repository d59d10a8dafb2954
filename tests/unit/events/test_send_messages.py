"""webhook_sender: messages are posted to their endpoints, and what is not accepted becomes a pending delivery."""

from typing import Any

import pytest

from masscomm.channels.guarded_http import NoAnswer
from masscomm.domain.ids import event_message_id
from masscomm.domain.time_limits import EVENT_ATTEMPT_S, EVENT_SENDER_RESERVE_S, WEBHOOK_RETRY_DELAYS_S
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import DeliveryStatus
from masscomm.errors import Retry
from tests.support.harness.chain import NOW
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.webhook_receiver import Received
from tests.support.harness.webhooks import KEY, answer, key, url_of


def message_id(event_id: str = "e1", endpoint_id: str = KEY.id) -> str:
    return event_message_id(7, event_id, endpoint_id)


def test_an_accepted_message_is_signed_and_not_stored() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred(unit="100/7")])) == []
    ((url, headers, body),) = sender.http.requests
    assert url == url_of(KEY)
    secret = secret_of(sender.use_case.gateway.keys.now(), key_id="1", endpoint_id=KEY.id, version=1)
    content = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    assert Received(headers, body).event == {
        "id": message_id(),
        "type": "match.goal",
        "api_version": "v1",
        "timestamp": "2023-11-14T22:13:20Z",
        "event_id": "e1",
        "club_id": 7,
        "unit": "100/7",
        "data": {"minute": 90},
    }
    assert headers["webhook-id"] == message_id()
    assert headers["webhook-signature"] == _signature(secret, content)
    assert (sender.pending(), sender.stored.calls) == ([], 0)


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        (["minute"], {"minute": 90}),
        (["player.id", "none", "player.none", "minute.id", "goals.0"], {"player": {"id": 5}}),
        (["player", "player.id"], {"player": {"id": 5, "name": None}}),
        (["player.id", "player"], {"player": {"id": 5, "name": None}}),
        (["player.name"], {"player": {"name": None}}),
        (["none"], {}),
    ],
)
def test_an_endpoint_receives_its_fields_alone(fields: list[str], data: Any) -> None:
    sender = WebhookSender()
    event = occurred(data='{"minute": 90, "goals": [2, 1], "player": {"id": 5, "name": null}}')
    assert sender.send(sender.request([event], field_lists=[[], fields], field_index=[1])) == []
    assert sender.bodies()[0]["data"] == data
    assert sender.send(sender.request([event], field_lists=[[], fields], field_index=[0])) == []
    assert sender.bodies()[1]["data"].keys() == {"minute", "goals", "player"}


def _signature(secret: str, content: bytes) -> str:
    import base64
    import hashlib
    import hmac

    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def test_ids_differ_by_endpoint_event_and_club() -> None:
    ids = {event_message_id(club, event, endpoint) for club in (7, 8) for event in "ab" for endpoint in ("x", "y")}
    assert len(ids) == 8


@pytest.mark.parametrize("refusal", [answer(500, body="no"), NoAnswer("no answer within 3 s")])
def test_a_refused_message_becomes_a_pending_delivery(refusal: Exception) -> None:
    """The sweep of webhook_delivery goes on with the published schedule, under the same id and with the same body."""
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [refusal]
    assert sender.send(sender.request([occurred()])) == []
    (delivery,) = sender.pending()
    assert (delivery.status, delivery.attempts, delivery.event_id) == (DeliveryStatus.PENDING, 1, message_id())
    assert delivery.due_ms is not None
    assert 0 <= delivery.due_ms - NOW - WEBHOOK_RETRY_DELAYS_S[0] * 1000 <= WEBHOOK_RETRY_DELAYS_S[0] * 100
    event = sender.stored.event(message_id())
    assert event is not None
    assert event.body.encode() == sender.http.requests[0][2]
    assert [queue.endpoint for queue in sender.stored.queues()] == [KEY]
    assert sender.endpoints.stored[KEY].failing_since_ms == NOW


@pytest.mark.guarantee("events.failing_endpoint_delays_no_other")
@pytest.mark.kills(guard="events.after_a_failure")
def test_messages_after_a_failure_wait_with_it() -> None:
    sender = WebhookSender()
    other = sender.endpoint(key(8))
    sender.http.answers[url_of(KEY)] = [answer(503)]
    events = [occurred(f"e{number}") for number in range(40)]
    assert sender.send(sender.request(events, [KEY, other.key])) == []
    assert 1 <= len(sender.http.ids()) <= 8
    assert len(sender.http.ids(other.key)) == 40
    assert len(sender.pending()) == 40
    assert {each.attempts for each in sender.pending()} == {0, 1}


@pytest.mark.guarantee("events.failing_endpoint_delays_no_other")
@pytest.mark.kills(guard="events.failing_endpoint")
def test_a_failing_endpoint_gets_no_attempt() -> None:
    sender = WebhookSender()
    sender.endpoint(failing_since_ms=NOW - 1)
    assert sender.send(sender.request([occurred()])) == []
    assert sender.http.requests == []
    (delivery,) = sender.pending()
    assert (delivery.attempts, delivery.due_ms) == (0, NOW)


@pytest.mark.parametrize("state", ["disabled", "deleted"])
def test_a_message_without_its_endpoint_is_dropped(state: str) -> None:
    sender = WebhookSender()
    if state == "disabled":
        sender.endpoint(enabled=False)
    else:
        sender.endpoints.delete(KEY)
    assert sender.send(sender.request([occurred()])) == []
    assert (sender.http.requests, sender.pending()) == ([], [])


def test_a_gone_endpoint_is_disabled() -> None:
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [answer(410)]
    sender.send(sender.request([occurred()]))
    assert not sender.endpoints.stored[KEY].enabled


def test_a_redelivered_record_keeps_the_attempts() -> None:
    """The function was killed after the first write: the second invocation counts from the stored delivery."""
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [answer(500)]
    sender.send(sender.request([occurred()]))
    (first,) = sender.pending()
    sender.endpoint()
    sender.clock.sleep(2)
    sender.send(sender.request([occurred()]))
    assert sender.pending() == [first]
    assert sender.http.ids() == [message_id()] * 2


def test_an_endpoint_has_few_concurrent_calls() -> None:
    sender = WebhookSender()
    sender.send(sender.request([occurred(f"e{number}") for number in range(100)]))
    assert sender.http.most == {url_of(KEY): 8}
    assert sorted(sender.http.ids()) == sorted(message_id(f"e{number}") for number in range(100))


@pytest.mark.kills(guard="events.time_for_an_attempt")
def test_messages_without_time_become_pending() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred()]), seconds=EVENT_ATTEMPT_S + EVENT_SENDER_RESERVE_S) == []
    assert sender.http.requests == []
    assert [each.attempts for each in sender.pending()] == [0]


def test_records_wait_while_the_endpoints_cannot_be_read() -> None:
    sender = WebhookSender()
    sender.endpoints.failing = Retry("down")
    assert sender.send(sender.request([occurred("e1")]), sender.request([occurred("e2")])) == [0, 1]
    assert sender.http.requests == []


def test_a_failed_write_redelivers_the_records_of_the_endpoint() -> None:
    sender = WebhookSender()
    other = sender.endpoint(key(8))
    sender.http.answers[url_of(KEY)] = [answer(500)]
    sender.stored.failing = Retry("down")
    assert sender.send(sender.request([occurred()]), sender.request([occurred()], [other.key])) == [0]


@pytest.mark.kills(guard="events.faults_of_messages")
def test_a_record_with_an_invalid_event_is_dead_lettered() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred(occurred_at=2**62)])) == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["invalid"]


@pytest.mark.parametrize(
    "fields", [{"event_index": [1]}, {"endpoint_index": [0, 0]}, {"offsets": []}, {"endpoints": ["nobody"]}]
)
def test_a_malformed_record_is_dead_lettered(fields: dict[str, Any]) -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred()], **fields)) == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["invalid"]


@pytest.mark.kills(guard="registry.bundled_schema")
def test_a_record_of_another_version_waits() -> None:
    sender = WebhookSender()
    request = sender.request([occurred()])
    entry = sender.encoded(request, "webhook", headers=[("masscomm.schema", b"another")])
    assert sender.run(sender.use_case, entry) == [0]
    assert sender.http.requests == []
    assert sender.hostile(b"\0\0\0\0\1junk") == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["undecodable"]
