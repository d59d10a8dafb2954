"""After an erasure the delivery ledger, the delay store and the register of sends work, and have no data of the
person.
"""

import zlib
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.digest_members import DigestKey
from masscomm.domain.events import EventType
from masscomm.domain.kept_messages import KeptMessage
from masscomm.domain.outcomes import SENT
from masscomm.domain.records import ContentColumn, DeliveryRequested
from masscomm.domain.sends import Send, SendKey, Source, digest_of_users
from masscomm.domain.webhooks import EndpointKey
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.digests.port import MemberKey
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from ops.erasure.delayed_records import DelayedRecords
from ops.erasure.item_tables import ItemTables
from ops.erasure.person import ERASED_USER, Person
from ops.erasure.personal_events import EventTables, PersonalEvents
from tests.support.contracts.digests import joining
from tests.support.contracts.webhook_dead_letters import KEY, letter
from tests.support.contracts.webhook_stores import endpoint
from tests.support.harness.chain import NOW
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]

ADDRESS = "ada.erased@example.org"
NAME = "Ada Erased"


class TablesWithItems:
    """The delivery ledger and the delay store, with the eraser of both."""

    def __init__(self, localstack: StackConfig, client: Any) -> None:
        self.admin = dynamodb(localstack)
        self.ledger_table, self.waiting_table, self.sends_table, self.caps_table = (
            new_table(self.admin, name) for name in ("delivery_ledger", "waiting", "sends", "frequency_caps")
        )
        registry = InMemorySchemaRegistry()
        registry.register("delivery-value", own_schema("DeliveryRequested"))
        self.codec = Codec(registry)
        self.store = DynamoDbDelayStore(table=self.waiting_table, client=client)
        self.ledger = DynamoDbDeliveryLedger(table=self.ledger_table, owner="a", clock=FixedClock(), client=client)
        self.erasing = ItemTables(
            client,
            ledger=self.ledger_table,
            waiting=self.waiting_table,
            sends=self.sends_table,
            frequency_caps=self.caps_table,
            records=DelayedRecords(registry, PersonalEvents({})),
        )

    def delay(self, record_id: str, **changes: Any) -> None:
        """Delay an e-mail to the users 7 and 8 for an hour."""
        usual: dict[str, Any] = {
            **dict.fromkeys(("record_id", "parent_id", "send_id"), record_id),
            "chunk_index": 0,
            "range_start": 0,
            "range_end": 2,
            "club_id": 3,
            "type": "news",
            "timestamp": NOW,
            "built_at": NOW,
            "channel": "email",
            "positions": [0, 1],
            "user_ids": [7, 8],
            "addresses": [ADDRESS, "bob@example.org"],
            "content": [ContentColumn(field="subject", values=[NAME, "Bob"], index=[0, 1])],
        }
        record = DeliveryRequested(**usual | changes)
        value = self.codec.encode("delivery", "DeliveryRequested", record.to_avro())
        item = DelayedRecord(
            id=record_id, due_ms=NOW + 3_600_000, topic="delivery", value=value, delay_reason="provider"
        )
        self.store.put(item, NOW)

    def texts(self) -> str:
        """Return every item of both tables as text, and delayed records also in the form of their release."""
        items = [self.admin.scan(TableName=name)["Items"] for name in (self.ledger_table, self.waiting_table)]
        return f"{items}{self.delayed()}"

    def items(self, table: str) -> list[dict[str, Any]]:
        """Return the items of a table, without those that mark minutes."""
        found: list[dict[str, Any]] = self.admin.scan(TableName=table)["Items"]
        return [each for each in found if "value" in each]

    def delayed(self) -> dict[str, dict[str, Any]]:
        found = [(item.id, self.codec.decode("DeliveryRequested", item.value)) for item in self.store.scan()]
        assert len(dict(found)) == len(found), "an item waits twice"
        return dict(found)


@pytest.fixture
def tables(localstack: StackConfig, functions_client: Any) -> TablesWithItems:
    return TablesWithItems(localstack, functions_client)


@pytest.mark.guarantee("erasure.delayed_record_keeps_the_others")
def test_delayed_record_keeps_positions_and_the_others_data(tables: TablesWithItems) -> None:
    tables.delay("both")
    tables.delay("another club's", club_id=4)
    long = [f"{ADDRESS}{number}" for number in range(60_000)]  # exceeds the size of a DynamoDB item
    tables.delay("large", content=[ContentColumn(field="subject", values=[*long, "Bob"], index=[0, 60_000])])
    before = tables.delayed()
    person = Person(user_id=7, club_id=3)
    assert tables.erasing.erase_delayed(person) == 2
    after = tables.delayed()
    assert after.keys() == before.keys()
    assert after["another club's"] == before["another club's"]
    for name in ("both", "large"):
        assert after[name]["addresses"] == ["", "bob@example.org"]
        assert (after[name]["positions"], after[name]["user_ids"]) == ([0, 1], [7, 8])
        assert ADDRESS not in str(after[name])
        assert NAME not in str(after[name])
    assert person.addresses == {ADDRESS}
    assert tables.erasing.erase_delayed(person) == 0


def test_erased_copy_is_found_by_its_key(tables: TablesWithItems) -> None:
    """Records of a send with fallbacks carry the key of the record that waits."""
    tables.delay("waits")
    (before,) = tables.store.scan()
    assert before.key is not None
    assert tables.erasing.erase_delayed(Person(user_id=7, club_id=3)) == 1
    after = tables.store.find(before.key)
    assert after is not None
    assert (after.due_ms, after.value == before.value) == (before.due_ms, False)


def test_copy_that_is_released_during_an_erasure_stays_so(tables: TablesWithItems) -> None:
    tables.delay("released", content=[ContentColumn(field="subject", values=["x" * 5_000], index=[0, 0])])
    (item,) = tables.store.scan()
    tables.store.done(item)
    tables.store.change(item, b"y" * 5_000)
    assert tables.items(tables.waiting_table) == []


def test_ledger_keeps_decisions_and_loses_the_user(tables: TablesWithItems) -> None:
    answers = (CallResult(target="device-of-ada", message_id="m1"), CallResult(target="device-2", error="Throttled"))
    slices = [
        RecipientResult(position=0, user_id=7, decision=SENT, call_results=answers),
        RecipientResult(
            position=1, user_id=8, decision=SENT, call_results=(CallResult(target="device-of-bob", message_id="m2"),)
        ),
    ]
    tables.ledger.acquire("record")
    tables.ledger.record("record", slices)
    tables.ledger.record("of others", slices[1:])
    person = Person(user_id=7, club_id=3)
    assert tables.erasing.erase_ledger(person) == 1
    first, second = tables.ledger.results("record")
    assert (first.position, first.user_id, first.decision) == (0, ERASED_USER, SENT)
    assert first.message_ids == ("m1",)
    assert second == slices[1]
    assert "of-ada" not in tables.texts()
    assert tables.erasing.erase_ledger(person) == 0


def test_large_slice_keeps_decisions_and_leaves_no_part(tables: TablesWithItems) -> None:
    """A large slice is stored in several items, whose names contain the digest of its text."""
    devices = tuple(CallResult(target=f"device-of-ada-{number}", message_id=str(uuid4())) for number in range(8_000))
    slices = [
        RecipientResult(position=3, user_id=7, decision=SENT, call_results=devices),
        RecipientResult(position=4, user_id=8, decision=SENT, call_results=devices[:1]),
    ]
    tables.ledger.record("large", slices)
    parts = len(tables.admin.scan(TableName=tables.ledger_table)["Items"])
    assert parts > 1
    assert tables.erasing.erase_ledger(Person(user_id=7, club_id=3)) == 1
    first, second = tables.ledger.results("large")
    assert (first.user_id, first.message_ids) == (ERASED_USER, tuple(answer.message_id for answer in devices))
    assert second == slices[1]
    assert '"device-of-ada-1"' not in tables.texts()
    assert "device-of-ada-7999" not in tables.texts()
    assert len(tables.admin.scan(TableName=tables.ledger_table)["Items"]) <= parts


def test_digest_of_the_only_recipient_is_removed(tables: TablesWithItems, functions_client: Any) -> None:
    sends = DynamoDbSends(table=tables.sends_table, client=functions_client)
    registered = [
        Send(key=SendKey(3, f"s{number}"), source=Source.KAFKA, content="c", recipients=digest_of_users(users))
        for number, users in enumerate(([7], [8], [7, 8]))
    ]
    sends.register(registered)
    for erased in (1, 0):
        assert tables.erasing.erase_sends(Person(user_id=7, club_id=3)) == erased
    found = sends.read([each.key for each in registered])
    assert [found[each.key].recipients is None for each in registered] == [True, False, False]


def test_places_of_frequency_caps_are_deleted(tables: TablesWithItems, functions_client: Any) -> None:
    caps = DynamoDbFrequencyCaps(table=tables.caps_table, client=functions_client)
    keys = [PlacesKey(3, 7, "a"), PlacesKey(3, 7, "b"), PlacesKey(3, 77, "a"), PlacesKey(4, 7, "a")]
    assert all(caps.write([[Change(key, StoredPlaces(), {"s#push": NOW}, 100)] for key in keys], NOW))
    for erased in (2, 0):
        assert tables.erasing.erase_caps(Person(user_id=7, club_id=3)) == erased
    assert caps.read(keys).keys() == set(keys[2:])


def test_digests_are_deleted(tables: TablesWithItems, functions_client: Any) -> None:
    digests = DynamoDbDigests(table=tables.caps_table, client=functions_client)
    keys = [DigestKey(3, 7, "push", "a"), DigestKey(3, 77, "push", "a")]
    assert all(digests.write([joining(key) for key in keys]))
    assert tables.erasing.erase_caps(Person(user_id=7, club_id=3)) == 2
    assert digests.read(keys).keys() == {keys[1]}
    assert digests.members([MemberKey(key, "a") for key in keys]).keys() == {MemberKey(keys[1], "a")}


@pytest.mark.kills(guard="erasure.kept_message")
def test_message_that_named_the_person_is_deleted(tables: TablesWithItems, functions_client: Any) -> None:
    """The variables of a send to few users may be values of one of them; many users share those of a larger send."""
    sends = DynamoDbSends(table=tables.sends_table, client=functions_client)
    message = KeptMessage(type="news", channels=("push",), data={"title": f"Hello {NAME}"}, user_ids=(7, 8))
    messages = {
        SendKey(3, "alone"): replace(message, user_ids=(7,)),
        SendKey(3, "among-few"): message,
        SendKey(3, "of-others"): replace(message, data={"title": "Hello Bob"}, user_ids=(8,)),
        SendKey(3, "to-many"): replace(message, data={"title": "We won"}, user_ids=()),
        SendKey(4, "of-another-club"): replace(message, data={"title": "Hello"}),
    }
    sends.register(Send(key=key, source=Source.REST, content="c", message=each) for key, each in messages.items())
    for erased in (2, 0):
        assert tables.erasing.erase_sends(Person(user_id=7, club_id=3)) == erased
    kept = [key.send_id for key in messages if sends.message(key) is not None]
    assert kept == ["of-others", "to-many", "of-another-club"]
    assert all(sends.find(key.send_id) is not None for key in messages)
    packed = [
        item["message"]["B"] for item in tables.admin.scan(TableName=tables.sends_table)["Items"] if "message" in item
    ]
    assert len(packed) == 3
    assert NAME not in str(list(map(zlib.decompress, packed)))


@pytest.mark.guarantee("erasure.dead_letters_of_webhooks")
def test_dead_letters_and_contacts_lose_the_person(localstack: StackConfig, functions_client: Any) -> None:
    admin = dynamodb(localstack)
    letters_table, endpoints_table = (new_table(admin, each) for each in ("webhook_dead_letters", "webhook_endpoints"))
    letters = DynamoDbWebhookDeadLetters(table=letters_table, client=functions_client)
    own, other = (
        replace(letter().event, club_id=3, type="player.hurt", data=f'{{"player":{{"id":{user}}}}}') for user in (7, 8)
    )
    letters.put([letter(number, event=event) for number, event in enumerate((own, other, replace(own, club_id=4)))])
    endpoints = DynamoDbWebhookEndpoints(table=endpoints_table, client=functions_client)
    contacts = {EndpointKey(club, f"ep_{club}_{user:020d}"): user for club in (3, 4) for user in (7, 8)}
    for key, user in contacts.items():
        endpoints.create(endpoint(key, contact_user_id=user))
    events = PersonalEvents.of_types([EventType(name="player.hurt", description="", user_path="player.id")])
    erasing = EventTables(client=functions_client, dead_letters=letters_table, endpoints=endpoints_table, events=events)
    person = Person(user_id=7, club_id=3)
    assert (erasing.erase_dead_letters(person), erasing.erase_contacts(person)) == (1, 1)
    assert (erasing.erase_dead_letters(person), erasing.erase_contacts(person)) == (0, 0)
    assert [each.id for each in letters.find(KEY, [letter(number).id for number in range(3)])] == [
        letter(1).id,
        letter(2).id,
    ]
    found = endpoints.find_all(contacts)
    assert {key: each.contact_user_id for key, each in found.items() if each.contact_user_id is not None} == {
        key: user for key, user in contacts.items() if (key.club_id, user) != (3, 7)
    }
    assert sorted(each.revision for each in found.values()) == [1, 1, 1, 2]
