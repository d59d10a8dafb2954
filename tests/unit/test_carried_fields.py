"""Each record that is derived from a send has the send's values in the fields that it carries."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from masscomm.domain import records
from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import CARRIED, AvroRecord, DerivedRecord, SendRequested
from masscomm.domain.users import Template, User, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID, send
from tests.support.harness.whole_chain import ThreeSteps
from tests.support.inputs.optional_tables import mapped

# A chunk of 501 recipients is first forwarded as a recheck record.
USERS = range(1, 502)
OPTED_OUT, ASLEEP, NAMELESS, UNREACHABLE = 1, 2, 3, 4
# Carried field → a value that no other field has.
VALUES: dict[str, Any] = {
    "club_id": 7,
    "type": "news",
    "timestamp": NOW - 5,
    "expires_at": NOW + 86_400_000,
    "collapse_key": "a collapse key",
    "reference": "a reference",
    "template": "a template",
    "data": {"score": "3:1"},
    "recipient_data": {"4": {"seat": "A1"}},
    "locale": "fr",
    # A record with contents of a digest is not collected.
    "digest": '{"template": "a_digest", "window": "1h"}',
    "collected": '{"count": 1, "list": [{}]}',
    "push": '{"badge":3}',
    "follows": "team:42",
}
# Fields of a send that no derived record carries, because the steps handle them.
OWN = {
    "to_users",
    "send_id",
    "chunk_index",
    "chunk_count",
    "channels",
    "priority",
    "send_at",
    "is_test",
    "send_at_local",
    "principal",
    "per_minute",
    "spread_over_ms",
    "fallbacks",
}


class Chain(ThreeSteps):
    """The chain's three steps, with recipients that leave the chain at different steps."""

    def __init__(self) -> None:
        super().__init__()
        for user_id in USERS:
            self.put_device(user_id, user_id)
            name = "" if user_id == NAMELESS else "Ada"
            self.directory.put(User(user_id=user_id, club_id=7, first_name=name), UserSettings(user_id=user_id))
        self.directory.put(
            UserSettings(user_id=OPTED_OUT, channels={"push": False}),
            UserSettings(user_id=ASLEEP, quiet_hours={"start": "00:00", "end": "23:59"}),
            Template(
                template_id=1,
                club_id=None,
                type=VALUES["template"],
                channel="push",
                locale="fr",
                title="Hello",
                body="Hello {{ user.first_name[0] }}",
            ),
        )
        self.push.fail = lambda arn: Transient("throttled", throttled=True) if arn == f"arn-{UNREACHABLE}" else None

    def follow(self, record: SendRequested) -> list[AvroRecord]:
        """Return each record that the functions derive from a send, delayed records included."""
        assert self.drive(record, topics.SEND_MONOLITH) == []
        return [*self.rechecks(), *self.builds(), *self.deliveries(), *self.outcomes(), *self.delayed()]

    def delayed(self) -> Iterator[AvroRecord]:
        kinds = {topics.RECHECK: "RecheckRequested", topics.DELIVERY: "DeliveryRequested"}
        for item in self.delay_store.items.values():
            kind = kinds[topics.base_of(item.topic)]
            yield getattr(records, kind).from_avro(self.codec.decode(kind, item.value))


@pytest.fixture(scope="module")
def derived() -> list[AvroRecord]:
    with mapped("memberships"):
        chain = Chain()
        for user_id in USERS:
            row = {"user_id": user_id, "kind": "team", "object": "42"}
            chain.directory.rows["memberships", f"{user_id}:team:42"] = row
        return chain.follow(send(USERS, channels=["push"], chunk_index=1, chunk_count=2, **VALUES))


def _name(record: AvroRecord) -> str:
    return getattr(record, "step", None) or getattr(record, "why", None) or type(record).__name__


def test_send_derives_a_record_of_each_kind(derived: list[AvroRecord]) -> None:
    waiting = {"RecheckRequested": {"send", "quiet_hours"}, "NotificationOutcome": {"preference", "build", "delivery"}}
    found: dict[str, set[str]] = {}
    for record in derived:
        found.setdefault(type(record).__name__, set()).add(_name(record))
    assert found == waiting | {name: {name} for name in ("BuildRequested", "DeliveryRequested")}
    assert {record.waits for record in derived if isinstance(record, records.DeliveryRequested)} == {0, 1}


@pytest.mark.kills(guard="templates.own_recipients_data")
@pytest.mark.parametrize("field", CARRIED)
def test_derived_records_have_the_sends_value(field: str, derived: list[AvroRecord]) -> None:
    """An outcome has the send's timestamp as requested_at."""
    for record in derived:
        is_renamed = isinstance(record, records.NotificationOutcome) and field == "timestamp"
        name = "requested_at" if is_renamed else field
        if name not in _names(type(record)):
            continue
        if name == "recipient_data":
            assert isinstance(record, DerivedRecord)
            assert getattr(record, name) == (VALUES[field] if 4 in record.positions else {}), _name(record)
        else:
            assert getattr(record, name) == VALUES[field], _name(record)


def test_derived_records_name_their_send(derived: list[AvroRecord]) -> None:
    for record in derived:
        assert isinstance(record, DerivedRecord)
        assert (record.send_id, record.chunk_index) == (SEND_ID, 1)


def test_each_field_of_a_send_is_carried_or_handled() -> None:
    """A new field of a send must be in SendFields or ContentFields if a step after preference_checker needs it."""
    assert _names(SendRequested) == set(CARRIED) | OWN
    assert VALUES.keys() == set(CARRIED)
    assert len({repr(value) for value in VALUES.values()}) == len(CARRIED)


def _names(kind: Any) -> set[str]:
    return {each.name for each in dataclasses.fields(kind)}
