"""webhook_receiver: a verified webhook becomes one event; the others are counted and listed, or stay in the queue."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote_plus

import pytest

from functions.webhook_receiver import receive_webhooks
from functions.webhook_receiver.known_sources import KnownSources
from functions.webhook_receiver.receive_webhooks import ReceiveWebhooks
from masscomm.domain.events import EventType
from masscomm.domain.records import EventOccurred
from masscomm.domain.webhook_sources import IncomingWebhook, Refusal, Scheme, sealing_context
from masscomm.errors import Retry, Stop
from masscomm.kafka import topics
from masscomm.observability import logs, metrics
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_types.checks import KnownTypes
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.webhook_sources.in_memory import InMemoryWebhookSources
from tests.support.harness.chain import Chain
from tests.support.harness.webhook_sources import (
    AT_MS,
    BOX,
    DOCUMENT,
    KEYS,
    MAPPING,
    queued,
    signed,
    source,
    source_key,
    webhook,
)

SCHEMA = json.dumps({"type": "object", "required": ["goals"]})


class Receiver(Chain):
    """The function over Kafka and stores in memory, with one source."""

    def __init__(self) -> None:
        super().__init__()
        metrics.taken()
        self.store, self.types, self.event_ids = InMemoryWebhookSources(), InMemoryEventTypes(), InMemoryEventIds()
        self.types.put(EventType(name="match.finished", description="A match has finished", schema=SCHEMA))
        self.store.put(source())
        self.cases = ReceiveWebhooks(
            sources=KnownSources(store=self.store, box=BOX, clock=self.clock),
            store=self.store,
            types=KnownTypes(store=self.types, clock=self.clock),
            event_ids=self.event_ids,
            codec=self.codec,
            producer=self.producer,
            clock=self.clock,
            logger=logs.logger("webhook_receiver"),
        )

    def receive(self, *webhooks: IncomingWebhook) -> list[str]:
        return list(self.cases.handle([queued(each) for each in webhooks]))

    def events(self) -> list[EventOccurred]:
        return self._decoded(EventOccurred, topics.EVENT)

    def accepted(self) -> list[str]:
        return [each.event_id for each in self.store.last_accepted(source_key(), AT_MS // 1000)]

    def refusals(self) -> list[tuple[Refusal, str]]:
        found = self.store.refusals(source_key(), AT_MS // 1000)
        assert found.total == len(found.last)
        return [(each.reason, each.detail) for each in found.last]


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.mark.parametrize("scheme", Scheme)
def test_verified_webhook_becomes_an_event(receiver: Receiver, scheme: Scheme) -> None:
    receiver.store.put(source(scheme))
    assert receiver.receive(webhook(scheme)) == []
    (event,) = receiver.events()
    assert (event.type, event.club_id, event.occurred_at) == ("match.finished", 1, AT_MS)
    assert json.loads(event.data) == DOCUMENT["match"]
    assert metrics.taken()[0] == {"IncomingWebhooksAccepted": 1, "IncomingWebhooksFailed": 0}


def test_repeated_webhook_is_produced_once(receiver: Receiver) -> None:
    """The sender's id counts: a sender may write a repetition otherwise."""
    again = webhook(document={**DOCUMENT, "attempt": 2})
    assert receiver.receive(webhook(), again) == []
    assert receiver.receive(again, webhook(id_="m-2")) == []
    assert len(receiver.events()) == 2
    assert metrics.taken()[0]["IncomingWebhooksRepeated"] == 2
    assert receiver.refusals() == []


@pytest.mark.kills(guard="sources.repeated_body")
@pytest.mark.parametrize("scheme", [Scheme.GITHUB, Scheme.HMAC])
def test_captured_webhook_is_no_event_under_another_id(receiver: Receiver, scheme: Scheme) -> None:
    receiver.store.put(source(scheme, mapping={**MAPPING, "event_id": {"path": "headers.x-any"}}))
    first, other = ({**webhook(scheme, id_=each).headers, "x-any": each} for each in ("m-1", "m-2"))
    assert receiver.receive(replace(webhook(scheme), headers=first)) == []
    assert receiver.receive(replace(webhook(scheme, id_="m-2"), headers=other)) == []
    assert [event.event_id for event in receiver.events()] == ["m-1"]
    assert metrics.taken()[0]["IncomingWebhooksRepeated"] == 1
    receiver.clock.sleep(86_401)
    assert receiver.receive(replace(webhook(scheme, id_="m-3"), headers=other)) == []
    assert [event.event_id for event in receiver.events()] == ["m-1", "m-2"]


def test_repetition_in_another_form_is_produced_once(receiver: Receiver) -> None:
    """The sender's id counts as well, though its header is not signed."""
    receiver.store.put(source(Scheme.GITHUB))
    assert receiver.receive(webhook(Scheme.GITHUB)) == []
    assert receiver.receive(webhook(Scheme.GITHUB, {**DOCUMENT, "attempt": 2})) == []
    assert len(receiver.events()) == 1


def test_webhook_without_id_is_its_body(receiver: Receiver) -> None:
    made = source(Scheme.HMAC)
    receiver.store.put(replace(made, signature=replace(made.signature, id_header="")))
    first, second = webhook(Scheme.HMAC), webhook(Scheme.HMAC, id_="m-2")
    assert receiver.receive(first, first, second, webhook(Scheme.HMAC, {**DOCUMENT, "n": 2}, id_="m-3")) == []
    assert len(receiver.events()) == 2


@pytest.mark.parametrize(
    ("changes", "document", "reason", "detail"),
    [
        ({}, [1], Refusal.UNMAPPED, "club_id at club: is missing"),
        ({}, {**DOCUMENT, "created": AT_MS}, Refusal.UNMAPPED, "occurred_at at created: occurred_at must be in"),
        pytest.param(
            {},
            {**DOCUMENT, "club": 2},
            Refusal.NOT_PERMITTED,
            "club_id 2",
            marks=pytest.mark.kills(guard="sources.own_tenants"),
        ),
        ({"type": {"value": "match.other"}}, DOCUMENT, Refusal.UNKNOWN_TYPE, "match.other"),
        ({}, {**DOCUMENT, "match": {}}, Refusal.MISFIT, "data at data: "),
    ],
)
def test_webhook_without_a_valid_event_is_listed(
    receiver: Receiver, changes: Any, document: Any, reason: Refusal, detail: str
) -> None:
    receiver.store.put(source(mapping={**MAPPING, **changes}))
    assert receiver.receive(webhook(document=document), webhook(id_="m-2")) == []
    assert receiver.refusals()[0][0] is reason
    assert receiver.refusals()[0][1].startswith(detail)
    name = f"IncomingWebhooksRefused{reason.replace('_', ' ').title().replace(' ', '')}"
    assert metrics.taken()[0][name] == len(receiver.refusals())


def test_wrong_signature_age_or_body_is_listed_without_detail(receiver: Receiver) -> None:
    unsigned = replace(webhook(), headers={})
    late = webhook(received_at_ms=AT_MS + 400_000)
    assert receiver.receive(unsigned, late) == []
    assert {reason for reason, _ in receiver.refusals()} == {Refusal.SIGNATURE, Refusal.TOO_OLD}
    assert receiver.events() == []


def _form(body: bytes) -> IncomingWebhook:
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8", **signed(Scheme.HMAC, body)}
    return replace(webhook(Scheme.HMAC), body=body, headers=headers)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        (b"club=1&created=1700000000&text=2+%C3%BC&empty=", {"text": "2 \u00fc", "empty": ""}),
        (b"payload=" + quote_plus(json.dumps(DOCUMENT)).encode(), {"match": DOCUMENT["match"]}),
    ],
)
def test_form_is_an_object_of_its_fields(receiver: Receiver, body: bytes, data: Any) -> None:
    mapping = {name: value for name, value in MAPPING.items() if name != "data"}
    receiver.store.put(source(Scheme.HMAC, mapping=mapping))
    receiver.types.put(EventType(name="match.finished", description="A match has finished"))
    assert receiver.receive(_form(body)) == []
    (event,) = receiver.events()
    assert json.loads(event.data).items() >= data.items()


@pytest.mark.parametrize("body", [b"payload=%7B", b"a=1&a=2", b"a=%ff", b"\xff=1", b"a=1&" * 1_001])
def test_malformed_form_is_listed(receiver: Receiver, body: bytes) -> None:
    receiver.store.put(source(Scheme.HMAC))
    assert receiver.receive(_form(body)) == []
    assert receiver.refusals()[0][0] is Refusal.UNREADABLE


def test_body_that_is_no_json_is_listed(receiver: Receiver) -> None:
    receiver.store.put(source(Scheme.HMAC))
    made = replace(webhook(Scheme.HMAC), body=b"a=1", headers=signed(Scheme.HMAC, b"a=1"))
    assert receiver.receive(made) == []
    assert receiver.refusals()[0][0] is Refusal.UNREADABLE


@pytest.mark.kills(guard="sources.alone_after_a_fault")
def test_webhook_that_meets_a_fault_delays_no_other(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(_schema: str | None, data: Any) -> None:
        if data == {"goals": "fault"}:
            raise RuntimeError

    monkeypatch.setattr(receive_webhooks, "misfit", faulty)
    bad = webhook(document={**DOCUMENT, "match": {"goals": "fault"}}, id_="m-2")
    assert receiver.receive(webhook(), bad, webhook(id_="m-3")) == ["sqs-m-2"]
    assert len(receiver.events()) == 2
    assert metrics.taken()[0]["IncomingWebhooksFailed"] == 1


def test_other_event_under_a_used_id_is_listed(receiver: Receiver) -> None:
    receiver.store.put(source(mapping={**MAPPING, "event_id": {"path": "id"}}))
    assert receiver.receive(webhook(), webhook(id_="m-2")) == []
    assert [event.event_id for event in receiver.events()] == ["m-1"]
    assert receiver.refusals() == [(Refusal.OTHER_EVENT, "")]


@pytest.mark.parametrize("id_", [source_key(9).id, "", "x" * 500, '","body":"'])
def test_webhook_of_an_unknown_source_is_counted(receiver: Receiver, id_: str) -> None:
    assert receiver.receive(replace(webhook(), source_id=id_)) == []
    assert metrics.taken()[0]["IncomingWebhooksRefusedUnknownSource"] == 1
    assert not receiver.store.refused


def test_message_that_is_no_webhook_is_counted(receiver: Receiver) -> None:
    assert list(receiver.cases.handle([{"messageId": "x", "body": "{"}, queued(webhook())])) == []
    assert metrics.taken()[0]["IncomingWebhooksRefusedUnknownSource"] == 1
    assert len(receiver.events()) == 1


@pytest.mark.kills(guard="sources.recorded_after_kafka")
def test_webhooks_stay_in_the_queue_while_kafka_is_away(receiver: Receiver) -> None:
    receiver.producer.fail = lambda _topic, _value: Retry("away")
    assert receiver.receive(webhook(), webhook(id_="m-2")) == ["sqs-m-1", "sqs-m-2"]
    receiver.producer.fail = lambda *_: None
    receiver.clock.sleep(86_000)  # Its age was that at its receipt.
    assert receiver.receive(webhook(), webhook(id_="m-2")) == []
    assert len(receiver.events()) == 2


@pytest.mark.parametrize("store", ["store", "types", "event_ids"])
def test_batch_stays_in_the_queue_while_a_store_is_away(receiver: Receiver, store: str) -> None:
    getattr(receiver, store).failing = Retry("away")
    with pytest.raises(Retry):
        receiver.receive(webhook())
    getattr(receiver, store).failing = None
    assert receiver.receive(webhook()) == []
    assert len(receiver.events()) == 1


def test_accepted_webhooks_are_listed(receiver: Receiver) -> None:
    receiver.producer.fail = lambda _topic, _value: Retry("away")
    receiver.receive(webhook())
    assert receiver.accepted() == []
    receiver.producer.fail = lambda *_: None
    receiver.receive(webhook(), webhook(), webhook(id_="m-2"))
    assert sorted(receiver.accepted()) == sorted(event.event_id for event in receiver.events())


def test_accepted_webhook_that_is_not_listed_is_an_event(receiver: Receiver) -> None:
    receiver.store.failing = {"accept": Retry("away")}
    assert receiver.receive(webhook()) == []
    assert len(receiver.events()) == 1


def test_refusal_that_is_not_stored_stays_in_the_queue(receiver: Receiver) -> None:
    receiver.store.failing = {"refuse": Retry("away")}
    unsigned = replace(webhook(id_="m-2"), headers={})
    assert receiver.receive(webhook(), unsigned) == ["sqs-m-2"]
    receiver.store.failing = None
    assert receiver.receive(unsigned) == []
    assert len(receiver.refusals()) == len(receiver.events()) == 1


@pytest.mark.kills(guard="sources.one_bad_webhook")
def test_source_with_a_lost_secret_delays_no_other(receiver: Receiver) -> None:
    lost = source(key=source_key(2), sealed=BOX.seal({"secret": "other"}, sealing_context("other")))
    receiver.store.put(lost)
    assert receiver.receive(replace(webhook(id_="m-2"), source_id=lost.key.id), webhook()) == ["sqs-m-2"]
    assert len(receiver.events()) == 1


def test_missing_table_ends_the_invocation(receiver: Receiver) -> None:
    receiver.store.failing = Stop("no table")
    with pytest.raises(Stop):
        receiver.receive(webhook())


def test_changed_source_is_used_within_its_time(receiver: Receiver) -> None:
    before = KEYS.decrypted
    receiver.receive(webhook())
    receiver.store.delete(source_key())
    receiver.receive(webhook(id_="m-2"))
    assert len(receiver.events()) == 2
    receiver.clock.sleep(10)
    receiver.receive(webhook(id_="m-3"))
    assert len(receiver.events()) == 2
    assert KEYS.decrypted == before + 1  # A secret is opened once.
