"""Erasing one recipient from a delayed record keeps the data and the positions of all other recipients."""

import json
from pathlib import Path
from typing import Any

import pytest

from local.devstack.config import ROOT
from masscomm.domain.events import EventType
from masscomm.domain.records import WebhookRequested
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.bundled_schema import BundledSchema, schema_header
from ops.erasure.delayed_records import DelayedRecords
from ops.erasure.person import Person
from ops.erasure.personal_events import PersonalEvents

EXAMPLES = ROOT / "schemas" / "examples"
TOPICS = {
    "delivery": "DeliveryRequested",
    "recheck.small": "RecheckRequested",
    "build.bulk2": "BuildRequested",
    "receipt": "ReceiptReceived",
    "webhook.slow": "WebhookRequested",
}


class RecordEraser:
    """Erases people from records, with a registry that has each topic's schema."""

    def __init__(self) -> None:
        registry = InMemorySchemaRegistry()
        for topic, schema in TOPICS.items():
            registry.register(f"{topic}-value", own_schema(schema))
        self.codec = Codec(registry)
        types = [EventType(name="player.hurt", description="An injury", user_path="player.id")]
        self.records = DelayedRecords(registry, PersonalEvents.of_types(types))

    def erased(self, person: Person, topic: str, record: dict[str, Any]) -> dict[str, Any]:
        value = self.records.without(person, topic, self.codec.encode(topic, TOPICS[topic], record))
        assert value is not None
        return self.codec.decode(TOPICS[topic], value)

    def record(self, topic: str, example: str, **changes: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(EXAMPLES, f"{example}.json").read_text()) | changes
        return self.codec.decode(TOPICS[topic], self.codec.encode(topic, TOPICS[topic], found))


@pytest.fixture
def eraser() -> RecordEraser:
    return RecordEraser()


def a_delivery(eraser: RecordEraser, **changes: Any) -> dict[str, Any]:
    usual = {
        "club_id": 3,
        "channel": "email",
        "positions": [0, 1, 4],
        "user_ids": [7, 8, 9],
        "addresses": ["ada@example.org", "bob@example.org", "cyd@example.org"],
        "content": [
            {"field": "subject", "values": ["Ada: 739182", "Bob: 11", "Cyd: 11"], "index": [0, 1, 2]},
            {"field": "body", "values": ["for all"], "index": []},
            {"field": "html", "values": ["shared", "Cyd"], "index": [0, 0, 1]},
        ],
        "taken": [
            {"position": 0, "target": "device 70", "message_id": "m0"},
            {"position": 1, "target": "device 80", "message_id": "m1"},
        ],
    }
    return eraser.record("delivery", "DeliveryRequested.email", **(usual | changes))


def test_delivery_to_several_loses_one_recipients_values(eraser: RecordEraser) -> None:
    before = a_delivery(eraser)
    person = Person(user_id=7, club_id=3)
    after = eraser.erased(person, "delivery", before)
    assert after["addresses"] == ["", "bob@example.org", "cyd@example.org"]
    texts = {
        column["field"]: [column["values"][place] for place in column["index"] or [0, 0, 0]]
        for column in after["content"]
    }
    assert texts == {
        "subject": ["", "Bob: 11", "Cyd: 11"],
        "body": ["for all"] * 3,
        "html": ["", "shared", "Cyd"],
    }
    assert "739182" not in json.dumps(after)
    assert [each["target"] for each in after["taken"]] == ["", "device 80"]
    unchanged = before.keys() - {"addresses", "content", "taken"}
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
    assert person.addresses == {"ada@example.org"}


def test_delivery_to_one_loses_its_texts(eraser: RecordEraser) -> None:
    alone = {"positions": [0], "user_ids": [7], "addresses": ["ada@example.org"], "taken": []}
    content = [{"field": "body", "values": ["Your code is 739182"], "index": []}]
    after = eraser.erased(Person(user_id=7, club_id=3), "delivery", a_delivery(eraser, **alone, content=content))
    assert after["content"] == [{"field": "body", "values": [""], "index": []}]
    assert (after["positions"], after["user_ids"], after["addresses"]) == ([0], [7], [""])


@pytest.mark.kills(guard="erasure.other_tenants_user")
@pytest.mark.parametrize("person", [Person(user_id=7, club_id=4), Person(user_id=70, club_id=3)])
def test_record_of_another_club_or_user_is_unchanged(eraser: RecordEraser, person: Person) -> None:
    before = a_delivery(eraser)
    assert eraser.erased(person, "delivery", before) == before
    value = eraser.codec.encode("delivery", "DeliveryRequested", before)
    assert eraser.records.without(person, "delivery", value) is value


@pytest.mark.kills(guard="erasure.contents_of_a_digest")
@pytest.mark.parametrize(
    ("topic", "example"), [("recheck.small", "RecheckRequested.split"), ("build.bulk2", "BuildRequested.push")]
)
def test_variables_of_a_send_to_one_are_erased(eraser: RecordEraser, topic: str, example: str) -> None:
    usual = {"club_id": 3, "positions": [5], "user_ids": [7], "data": {"code": "739182"}}
    person = Person(user_id=7, club_id=3)
    alone = eraser.record(topic, example, **usual, range_start=5, range_end=6)
    assert eraser.erased(person, topic, alone) == alone | {"data": {}, "push": None}
    silent = alone | {"push": '{"silent":true,"data":{"code":"739182"}}'}
    assert eraser.erased(person, topic, silent) == silent | {"data": {}, "push": '{"silent":true}'}
    digest = alone | {"collected": '{"count":1,"list":[{"code":"739182"}]}'}
    assert eraser.erased(person, topic, digest)["collected"] == '{"count":0,"list":[]}'
    several = eraser.record(topic, example, **usual | {"positions": [5, 6], "user_ids": [7, 8]})
    assert eraser.erased(person, topic, several) == several


@pytest.mark.parametrize(
    ("topic", "example"), [("recheck.small", "RecheckRequested.split"), ("build.bulk2", "BuildRequested.push")]
)
def test_variables_of_one_recipient_are_erased(eraser: RecordEraser, topic: str, example: str) -> None:
    own = {"5": {"code": "739182"}, "6": {"code": "11"}}
    several = eraser.record(
        topic, example, club_id=3, positions=[5, 6], user_ids=[7, 8], data={"for": "all"}, recipient_data=own
    )
    person = Person(user_id=7, club_id=3)
    assert eraser.erased(person, topic, several) == several | {"recipient_data": {"6": {"code": "11"}}}
    alone = several | {"positions": [5], "user_ids": [7], "recipient_data": {"5": {"code": "739182"}}}
    assert eraser.erased(person, topic, alone) == alone | {"data": {}, "push": None, "recipient_data": {}}


@pytest.mark.kills(guard="erasure.address_of_the_envelope")
@pytest.mark.parametrize("received", ["Ada@xn--bcher-kva.example", "ada@bücher.example", "ADA@BÜCHER.EXAMPLE"])
def test_address_is_erased_from_receipts_in_each_form(eraser: RecordEraser, received: str) -> None:
    person = Person(user_id=7, club_id=3)
    person.learn_address("\u200bAda@bücher.example\ufeff")
    body = json.dumps({"to": f"İ <{received}>, bob@b.example"})
    before = eraser.record("receipt", "ReceiptReceived.bounce", body=body)
    after = eraser.erased(person, "receipt", before)
    assert json.loads(after["body"]) == {"to": "İ <erased@erased.invalid>, bob@b.example"}


def test_receipt_keeps_its_shape_without_the_address(eraser: RecordEraser) -> None:
    message = json.dumps({"mail": {"destination": ["Ada@example.org"]}, "bounce": {"bouncedRecipients": []}})
    body = json.dumps({"Message": message, "MessageId": "m"})
    before = eraser.record("receipt", "ReceiptReceived.bounce", body=body)
    person = Person(user_id=7, club_id=3, addresses={"ada@example.org"})
    after = eraser.erased(person, "receipt", before)
    notice = json.loads(json.loads(after["body"])["Message"])
    assert notice["mail"]["destination"] == ["erased@erased.invalid"]
    assert after["record_id"] == before["record_id"]
    assert eraser.erased(Person(user_id=7, club_id=3), "receipt", before) == before


@pytest.mark.parametrize("topic", ["on-failure", "outcome", "audience", "device_status"])
def test_record_that_waited_for_its_schema_stays(eraser: RecordEraser, topic: str) -> None:
    assert eraser.records.without(Person(user_id=7, club_id=3), topic, b'{"payload": 7}') == b'{"payload": 7}'


def occurred(data: Any, **fields: Any) -> dict[str, Any]:
    usual = {"event_id": "e", "type": "player.hurt", "club_id": 3, "occurred_at": 1_700_000_000_000}
    return usual | {"data": json.dumps(data)} | fields


def a_webhook(eraser: RecordEraser, *events: dict[str, Any]) -> dict[str, Any]:
    """Return a record with each event for two endpoints, which receive other fields of data."""
    columns: dict[str, Any] = {
        "events": list(events),
        "offsets": list(range(len(events))),
        "produced_at": [1_700_000_000_000 + number for number in range(len(events))],
        "endpoints": ["ep_3_aaaaaaaaaaaaaaaaaaaa", "ep_3_bbbbbbbbbbbbbbbbbbbb"],
        "event_index": [place for place in range(len(events)) for _ in range(2)],
        "endpoint_index": [0, 1] * len(events),
        "field_lists": [[], ["player"]],
        "field_index": [0, 1] * len(events),
    }
    return eraser.record("webhook.slow", "WebhookRequested.two_messages", **columns)


@pytest.mark.guarantee("erasure.waiting_messages")
def test_waiting_messages_that_concern_the_person_are_removed(eraser: RecordEraser) -> None:
    other, own = occurred({"player": {"id": 8}}, event_id="other"), occurred({"player": {"id": 7}})
    before = a_webhook(eraser, other, own, other, own | {"data": '{"player":{"id":"7"}}'}, other)
    assert eraser.erased(Person(user_id=7, club_id=3), "webhook.slow", before) == before | {
        **{name: [before[name][place] for place in (0, 2, 4)] for name in ("events", "offsets", "produced_at")},
        "event_index": [0, 0, 1, 1, 2, 2],
        "endpoint_index": [0, 1] * 3,
        "field_index": [0, 1] * 3,
    }
    alone = eraser.codec.encode("webhook.slow", "WebhookRequested", a_webhook(eraser, own, own))
    assert eraser.records.without(Person(user_id=7, club_id=3), "webhook.slow", alone) is None


@pytest.mark.kills(guard="erasure.other_tenants_event")
@pytest.mark.parametrize(
    "event",
    [
        occurred({"player": {"id": 7}}, club_id=4),
        occurred({"player": {"id": 7}}, type="player.other"),
        occurred({"player": {"id": True}}),
        occurred({"player": 7}),
        occurred({"player": {"id": [7]}}),
    ],
)
def test_other_messages_wait_as_before(eraser: RecordEraser, event: dict[str, Any]) -> None:
    before = a_webhook(eraser, event)
    for person in (Person(user_id=7, club_id=3), Person(user_id=1, club_id=3)):
        assert eraser.erased(person, "webhook.slow", before) == before


@pytest.mark.kills(guard="erasure.bundled_schema")
def test_messages_of_a_function_without_a_registry_are_erased(eraser: RecordEraser) -> None:
    """Its schema is named by a header; another version of it must not be read as this one."""
    person = Person(user_id=7, club_id=3)
    codec = Codec(BundledSchema(WebhookRequested))
    record = a_webhook(eraser, occurred({"player": {"id": 7}}))
    value = codec.encode("webhook.slow", "WebhookRequested", record)
    headers = [schema_header(WebhookRequested)]
    assert eraser.records.without(person, "webhook.slow", value, headers) is None
    with pytest.raises(Retry, match="another version"):
        eraser.records.without(person, "webhook.slow", value, [("masscomm.schema", b"other")])
