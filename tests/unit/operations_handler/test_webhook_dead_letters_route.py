"""The dead letters of webhooks over HTTP: a tenant polls, acknowledges and replays those of its endpoints."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.webhook_dead_letters import MAX_AT_ONCE, WebhookDeadLettersRoute
from masscomm.chain.waiting_messages import WaitingMessages
from masscomm.clock import FixedClock
from masscomm.domain.records import WebhookRequested
from masscomm.domain.time_limits import WEBHOOK_DEAD_LETTERS_KEPT_S, WEBHOOK_DEAD_LETTERS_SETTLED_S
from masscomm.domain.webhooks import Endpoint
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from tests.support.contracts.webhook_dead_letters import KEY, NOW, letter
from tests.support.harness.chain import registry_with_all_schemas

SEVEN, EIGHT = Clubs(frozenset({7})), Clubs(frozenset({8}))


class Setting:
    """The routes over stores in memory, with 10 dead letters of an endpoint."""

    def __init__(self) -> None:
        self.clock = FixedClock(NOW + 1_000_000)
        self.endpoints = InMemoryWebhookEndpoints()
        self.endpoints.stored[KEY] = Endpoint(key=KEY, url="https://a.example.org/", created_at_ms=1, key_id="1")
        self.letters = InMemoryWebhookDeadLetters()
        self.letters.put([letter(number) for number in range(10)])
        self.delayed = InMemoryDelayStore()
        self.codec = Codec(registry_with_all_schemas())
        self.audit_log = InMemoryAuditLog()
        self.audit = operations_handler.audits(self.audit_log, self.clock)("k7")
        self.route = WebhookDeadLettersRoute(
            endpoints=self.endpoints,
            dead_letters=self.letters,
            waiting=WaitingMessages(store=self.delayed, codec=self.codec, clock=self.clock),
            clock=self.clock,
        )

    def page(self, clubs: Clubs = SEVEN, **parameters: str) -> Any:
        return self.route.answer(KEY.id, {name: [value] for name, value in parameters.items()}, clubs)

    def ack(self, clubs: Clubs = SEVEN, **fields: Any) -> Any:
        return self.route.acknowledge(KEY.id, json.dumps(fields), clubs, self.audit)

    def replay(self, clubs: Clubs = SEVEN, **fields: Any) -> Any:
        return self.route.replay(KEY.id, json.dumps(fields), clubs, self.audit)

    def waiting(self) -> list[str]:
        """Return the events that wait for webhook.slow."""
        records = [
            WebhookRequested.from_avro(self.codec.decode("WebhookRequested", item.value))
            for item in self.delayed.items.values()
            if item.topic == topics.WEBHOOK_SLOW
        ]
        return sorted(event.event_id for record in records for event in record.events)


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_dead_letters_are_polled_in_their_order(setting: Setting) -> None:
    first = setting.page(limit="6")
    assert [row["event_id"] for row in first["rows"]] == [f"e{number}" for number in range(6)]
    assert (first["rows"][0]["data"], first["rows"][0]["status"], first["truncated"]) == ({"a": "ö"}, 500, True)
    second = setting.page(cursor=first["next_cursor"])
    assert second == setting.page(after=first["last"])
    assert [row["event_id"] for row in second["rows"]] == [f"e{number}" for number in range(6, 10)]
    empty = setting.page(after=second["last"])
    assert (empty["rows"], empty["last"], empty["next_cursor"]) == ([], None, None)
    assert setting.page(type="match.finished")["rows"] == []
    assert len(setting.page(type="match.goal")["rows"]) == 10
    with pytest.raises(Problem) as raised:
        setting.page(cursor="x")
    assert [each.field for each in raised.value.errors] == ["cursor"]


@pytest.mark.parametrize(
    ("span", "listed"),
    [
        ({"after": letter(6).id}, [7, 8, 9]),
        ({"after": "2023-11-14T22:13:20.506Z"}, [7, 8, 9]),
        ({"up_to": letter(2).id}, [0, 1, 2]),
        ({"up_to": "2023-11-14T23:13:20.502+01:00"}, [0, 1, 2]),
        ({"after": letter(4).id, "up_to": "2023-11-14T22:13:20.505Z"}, [5]),
    ],
)
def test_a_span_ends_at_ids_or_times(setting: Setting, span: dict[str, Any], listed: list[int]) -> None:
    assert [row["event_id"] for row in setting.page(**span)["rows"]] == [f"e{number}" for number in listed]
    assert setting.replay(**span)["replayed"] == len(listed)


@pytest.mark.kills(guard="events.expired_dead_letter")
def test_expired_letters_are_neither_listed_nor_replayed(setting: Setting) -> None:
    """DynamoDB deletes an expired item within days."""
    setting.clock.advance((NOW + 5 - setting.clock.now_ms()) / 1000 + WEBHOOK_DEAD_LETTERS_KEPT_S)
    assert [row["event_id"] for row in setting.page()["rows"]] == [f"e{number}" for number in range(6, 10)]
    assert setting.replay(ids=[letter(5).id, letter(6).id]) == {"replayed": 1, "truncated": False}
    assert setting.replay() == {"replayed": 3, "truncated": False}


def test_a_dead_letter_is_listed_once_it_has_settled(setting: Setting) -> None:
    """Others of the same time may still be stored: none must appear before the last one that a caller has seen."""
    setting.letters.put([letter(99, at_ms=setting.clock.now_ms())])
    assert len(setting.page()["rows"]) == 10
    setting.clock.advance(WEBHOOK_DEAD_LETTERS_SETTLED_S + 1)
    assert len(setting.page()["rows"]) == 11


def test_acknowledged_letters_are_deleted(setting: Setting) -> None:
    assert setting.ack(up_to=letter(3).id) == {"acknowledged": 4, "truncated": False}
    assert [row["event_id"] for row in setting.page()["rows"]] == [f"e{number}" for number in range(4, 10)]
    assert setting.ack(up_to=letter(3).id) == {"acknowledged": 0, "truncated": False}
    assert [entry.action for entry in setting.audit_log.entries] == ["webhook.acknowledged"] * 2


def test_many_letters_need_several_requests(setting: Setting) -> None:
    setting.letters.put([letter(number) for number in range(MAX_AT_ONCE + 30)])
    up_to = letter(MAX_AT_ONCE + 20).id
    assert setting.ack(up_to=up_to) == {"acknowledged": MAX_AT_ONCE, "truncated": True}
    assert setting.ack(up_to=up_to) == {"acknowledged": 21, "truncated": False}


@pytest.mark.parametrize(
    ("fields", "replayed"),
    [
        ({"ids": [letter(2).id, letter(5).id, letter(50).id]}, ["e2", "e5"]),
        ({"after": letter(6).id}, ["e7", "e8", "e9"]),
        ({"after": letter(1).id, "up_to": letter(3).id}, ["e2", "e3"]),
        ({"type": "match.goal", "up_to": letter(1).id}, ["e0", "e1"]),
        ({"type": "match.finished"}, []),
    ],
)
def test_replayed_letters_wait_for_an_attempt(setting: Setting, fields: dict[str, Any], replayed: list[str]) -> None:
    assert setting.replay(**fields) == {"replayed": len(replayed), "truncated": False}
    assert setting.waiting() == replayed
    assert {row["event_id"] for row in setting.page()["rows"]} == {f"e{n}" for n in range(10)} - set(replayed)
    assert all(item.due_ms == setting.clock.now_ms() for item in setting.delayed.items.values())
    assert [entry.action for entry in setting.audit_log.entries] == ["webhook.replayed"]


def test_a_letter_stays_until_its_message_is_stored(setting: Setting) -> None:
    setting.delayed.failing = Retry("down")
    with pytest.raises(Retry):
        setting.replay()
    setting.delayed.failing = None
    assert len(setting.page()["rows"]) == 10
    assert setting.replay()["replayed"] == 10


def test_large_letters_are_replayed_in_several_records(setting: Setting) -> None:
    setting.letters.stored.clear()
    large = json.dumps({"text": "x" * 60_000})
    setting.letters.put([letter(n, event=replace(letter(n).event, data=large)) for n in range(12)])
    assert setting.replay()["replayed"] == 12
    assert len(setting.delayed.items) == 3
    assert len(setting.waiting()) == 12


def test_letters_of_a_disabled_endpoint_are_not_replayed(setting: Setting) -> None:
    key = KEY
    setting.endpoints.stored[key] = Endpoint(
        key=key, url="https://a.example.org/", created_at_ms=1, key_id="1", enabled=False
    )
    with pytest.raises(Problem) as raised:
        setting.replay()
    assert raised.value.status == 409
    assert len(setting.page()["rows"]) == 10


@pytest.mark.kills(guard="tenancy.webhook")
def test_letters_of_another_clubs_endpoint_read_as_unknown(setting: Setting) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: setting.page(EIGHT),
        lambda: setting.ack(EIGHT, up_to=letter(3).id),
        lambda: setting.replay(EIGHT),
    ]
    for call in calls:
        with pytest.raises(Problem) as raised:
            call()
        assert raised.value.status == 404
    assert len(setting.page()["rows"]) == 10
    assert setting.delayed.items == {}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"up_to": "x"}, "up_to"),
        ({"up_to": "2023-11-14T22:13:20"}, "up_to"),
        ({"after": 5}, "after"),
        ({"ids": "x"}, "ids"),
        ({"ids": ["x"]}, "ids"),
        ({"ids": [letter(1).id] * 201}, "ids"),
        ({"ids": [letter(1).id], "type": "match.goal"}, "ids"),
        ({"type": "Match"}, "type"),
        ({"other": 1}, "other"),
    ],
)
def test_an_unusable_field_is_refused(setting: Setting, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as raised:
        setting.replay(**fields)
    assert raised.value.status == 400
    assert [each.field for each in raised.value.errors] == [field]
    assert setting.delayed.items == {}
