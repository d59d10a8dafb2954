"""webhook_sender is killed between a POST and the end of its batch, with the real DynamoDB: the message is repeated
under the same id, and none is lost.
"""

import json
import signal

import pytest

from masscomm.domain.signing_keys import KeySet
from masscomm.domain.webhook_signatures import secret_of
from tests.support.harness.sender_process import KEY, SenderStores, batch, in_a_process, sender_stores
from tests.support.harness.webhook_receiver import receiving
from tests.support.harness.webhooks import KEYS_TEXT

__all__ = ["sender_stores"]


@pytest.mark.guarantee("events.at_least_once")
@pytest.mark.parametrize("max_count", [pytest.param(1, marks=pytest.mark.nightly), 10])
def test_a_killed_sender_repeats_messages_under_their_ids(sender_stores: SenderStores, max_count: int) -> None:
    with receiving() as receiver:
        sender_stores.create(receiver.url, max_count=max_count)
        given = batch(20)
        assert in_a_process(given, killed_after=1) == -signal.SIGKILL
        first = {each.headers["webhook-id"]: each.body for each in receiver.received}
        assert first
        assert in_a_process(given) == 0
        bodies = {each.headers["webhook-id"]: each.body for each in receiver.received}
        assert len(bodies) == 20 / max_count
        assert all(bodies[id_] == body for id_, body in first.items())
        parsed = [json.loads(body) for body in bodies.values()]
        events = {each["event_id"] for found in parsed for each in (found if isinstance(found, list) else [found])}
        assert events == {f"e{number}" for number in range(20)}
        # At most the calls in flight are repeated: those of one endpoint.
        assert len(receiver.received) - len(bodies) <= 8
        secret = secret_of(KeySet.read(KEYS_TEXT), key_id="1", endpoint_id=KEY.id, version=1)
        assert all(each.is_signed(secret) for each in receiver.received)
        assert {row.status for row in sender_stores.results()} == {"delivered"}
        assert len(sender_stores.results()) == 20


@pytest.mark.guarantee("events.killed_sender")
def test_a_killed_sender_repeats_the_unrecorded_messages(
    sender_stores: SenderStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_UNRECORDED", "50")
    with receiving() as receiver:
        sender_stores.create(receiver.url)
        given = batch(300)
        assert in_a_process(given, killed_after=230) == -signal.SIGKILL
        assert len(receiver.received) >= 230
        assert in_a_process(given) == 0
        ids = [each.headers["webhook-id"] for each in receiver.received]
        assert len(set(ids)) == 300
        assert len(ids) - 300 <= 50
        assert sorted(row.event_id for row in sender_stores.results()) == sorted(f"e{number}" for number in range(300))


@pytest.mark.guarantee("events.at_least_once")
def test_an_unreachable_endpoint_leaves_waiting_messages(sender_stores: SenderStores) -> None:
    """They wait for webhook.slow, under the ids of the messages."""
    sender_stores.create("http://127.0.0.1:1024/")
    assert in_a_process(batch(30)) == 0
    waiting = sender_stores.waiting()
    assert sum(len(each.event_index) for each in waiting) == 30
    assert {each.attempt for each in waiting} == {0, 1}
    assert sender_stores.endpoint().failing_since_ms is not None
    attempted = sum(len(each.event_index) for each in waiting if each.attempt == 1)
    assert [row.status for row in sender_stores.results()] == ["retried"] * attempted


def test_the_messages_of_a_disabled_endpoint_are_dead_letters(sender_stores: SenderStores) -> None:
    sender_stores.create("http://127.0.0.1:1024/", enabled=False)
    assert in_a_process(batch(60)) == 0
    assert sender_stores.waiting() == []
    assert [each.event.event_id for each in sender_stores.dead_letters()] == sorted(f"e{n}" for n in range(60))
