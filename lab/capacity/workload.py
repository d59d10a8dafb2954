"""The load of the system, and the sizes of its records, which are measured by encoding examples.

The shares (of allowed recipients, of e-mail, of devices per user) depend on the club (tenant): change them in this file
and run `make capacity`.
"""

import json
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any
from uuid import UUID

from functions.device_registrar.device_states import DeviceState, StatesOfDevice, Taken, stored_document
from lab.capacity.service_times import measured
from masscomm.decisions.parts import PART_SIZE
from masscomm.directory import device_states
from masscomm.directory.own_documents import DocumentKey, OwnDocument, Version
from masscomm.domain import preference_changes, suppressions, tenant_preferences
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.cap_places import entry_of
from masscomm.domain.digest_members import DigestKey, Member, OpenDigest
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.kept_messages import KeptMessage, NotKept
from masscomm.domain.notification_codes import code_of
from masscomm.domain.notification_rules import Owner
from masscomm.domain.outcomes import RANGE_SIZE, RecipientOutcome, outcome
from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.domain.preferences import Decision
from masscomm.domain.records import (
    AvroRecord,
    BuildRequested,
    ContentColumn,
    DeliveryFields,
    DeliveryRequested,
    RecheckRequested,
    SendRequested,
)
from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import CatchUp, Occurrence, OccurrenceState, Schedule
from masscomm.domain.send_results import SendResult
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.suppressions import Suppression
from masscomm.domain.tenant_preferences import TenantPreferences
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.decision_log.port import Decisions, record_decisions
from masscomm.stores.delivery_ledger.port import to_document
from masscomm.stores.digests.dynamodb import puts_of
from masscomm.stores.digests.port import DigestChange
from masscomm.stores.frequency_caps.dynamodb import item_of as places_item_of
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.schedules.dynamodb import item_of as schedule_item_of
from masscomm.stores.schedules.dynamodb import occurrence_item
from masscomm.stores.send_results.dynamodb import item_of as result_item_of
from masscomm.stores.sends.dynamodb import item_of, message_item

KB = 1024
# Realistically large values of a user id, a time and a club id, because Avro encodes smaller numbers in fewer bytes.
_FIRST_USER, _NOW_MS, _CLUB, _ID = 30_000_000, 1_790_000_000_000, 4_711, str(UUID(int=1))
# The characters of a device's token. Assumed: FCM documents no length.
_TOKEN = 163
_SENT = Decision(Status.SENT, None, "provider")
_OPTED_OUT = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "channel:push", settings_version=123_456_789)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A steady load.

    Attributes:
        notifications_s: The requested notifications (a user on a channel) per second.
        chunk: The number of recipients of one send record.
        allowed: The share of recipients that are not suppressed.
        email: The share of e-mail; all other notifications are pushes.
        devices: The number of devices of a user with push.
        critical_s: The additional sends to one user per second in the critical lane.
    """

    notifications_s: float
    chunk: int = PART_SIZE
    allowed: float = 0.9
    email: float = 0.1
    devices: float = 1.3
    critical_s: float = 50.0

    @property
    def pushes_s(self) -> float:
        """Return the Publish calls per second, those of the critical lane included."""
        return (self.notifications_s * self.allowed * (1 - self.email) + self.critical_s) * self.devices

    @property
    def emails_s(self) -> float:
        return self.notifications_s * self.allowed * self.email

    @property
    def calls_a_recipient(self) -> float:
        """Return the number of provider calls for an allowed notification."""
        return self.email + (1 - self.email) * self.devices


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The bytes of a full record on each topic and of stored items, and the number of notifications in each."""

    records: Mapping[str, int]
    per: Mapping[str, float]
    ledger_units: int
    ledger_bytes: int
    check_units: int
    build_units: int

    def bytes_a_notification(self, *names: str) -> float:
        """Return the bytes per notification on these topics; without names, on all topics."""
        return sum(self.records[name] / self.per[name] for name in names or self.records)


@cache
def sizes(workload: Workload) -> Sizes:
    """Return the sizes for the records of the workload: pushes with a different title for each recipient."""
    allowed = round(RANGE_SIZE * workload.allowed)
    remaining = RANGE_SIZE - allowed
    build = _build(allowed)
    delivery = _delivery(build)
    outcomes = [RecipientOutcome(position, _FIRST_USER + position, _OPTED_OUT) for position in range(remaining)]
    sent = [
        RecipientOutcome(position, user_id, _SENT, (_ID,) * round(workload.devices))
        for position, user_id in zip(build.positions, build.user_ids, strict=True)
    ]
    records: dict[str, AvroRecord] = {
        topics.SEND_API: SendRequested(
            type="news",
            club_id=_CLUB,
            timestamp=_NOW_MS,
            to_users=[_FIRST_USER + position for position in range(workload.chunk)],
            send_id=_ID,
            data={"score": "3:1"},
        ),
        topics.BUILD: build,
        topics.DELIVERY: delivery,
        "outcome.delivery": _outcome(delivery, sent, "delivery"),
    }
    if outcomes:
        records["outcome.preference"] = _outcome(build, outcomes, "preference")
    ledger = _ledger_item(workload)
    return Sizes(
        records={name: _encoded(name, record) for name, record in records.items()},
        per={name: float(workload.chunk if name == topics.SEND_API else RANGE_SIZE) for name in records},
        ledger_units=ceil(ledger / KB),
        ledger_bytes=ledger,
        check_units=_decision_units(workload.chunk, workload.allowed),
        build_units=_decision_units(allowed, 1.0),
    )


def _build(count: int) -> BuildRequested:
    return BuildRequested(
        record_id=_ID,
        parent_id=_ID,
        send_id=_ID,
        chunk_index=0,
        range_start=0,
        range_end=RANGE_SIZE,
        club_id=_CLUB,
        type="news",
        timestamp=_NOW_MS,
        channel="push",
        data={"score": "3:1"},
        positions=list(range(count)),
        user_ids=[_FIRST_USER + position for position in range(count)],
    )


def _delivery(build: BuildRequested) -> DeliveryRequested:
    titles = [f"For you, Name{user_id}" for user_id in build.user_ids]
    return build.derive(
        DeliveryRequested,
        "delivery",
        "push",
        (build.range_start, build.range_end),
        build.positions,
        build.user_ids,
        DeliveryFields(
            built_at=_NOW_MS,
            addresses=[],
            content=[
                ContentColumn(field="title", values=titles, index=list(range(len(titles)))),
                ContentColumn(field="body", values=["We won 3:1."], index=[]),
            ],
        ),
    )


def _outcome(parent: BuildRequested | DeliveryRequested, outcomes: Sequence[RecipientOutcome], step: str) -> AvroRecord:
    return outcome(parent, outcomes, channel="push", step=step, start=0, end=RANGE_SIZE, now_ms=_NOW_MS, directory=None)


def register_item() -> int:
    """Return the bytes of a single send in the register of sends."""
    send = Send(
        key=SendKey(1_000_000, _ID),
        source=Source.KAFKA,
        requested_at_ms=10**12,
        content="0" * 32,
        recipients="0" * 16,
        chunks=1,
        type="match_reminder",
        users=1,
        channels=("push",),
        not_kept=NotKept.SMALL,
    )
    return item_bytes(item_of(send, 10**9))


def result_item() -> int:
    """Return the bytes of the results of a single send in the register, of one outcome record."""
    codes = array("H", [code_of(Status.SENT, None)])
    result = SendResult(send=SendKey(1_000_000, _ID), record_id=_ID, channel="push", first=0, codes=codes)
    return item_bytes(result_item_of(result, 10**12))


def places_item(count: int) -> int:
    """Return the bytes of the places of a user for a frequency cap, if so many sends on one channel count."""
    cap = Cap(limit=count, window="7d", group="marketing")
    taken = {entry_of(f"{_ID[:-4]}{number:04}", "push"): 10**12 for number in range(count)}
    key = PlacesKey(1_000_000, _FIRST_USER, cap.key("match_reminder", "push"))
    return item_bytes(places_item_of(Change(key, StoredPlaces(), taken, cap.kept_s), 10**9))


def digest_items(members: int) -> tuple[int, int]:
    """Return the bytes of a user's digest with so many members, and of one member with two variables."""
    sends = tuple(f"{_ID[:-4]}{number:04}" for number in range(members))
    key = DigestKey(1_000_000, _FIRST_USER, "push", "0" * 24)
    member = Member(10**12, {"author": "Ada Lovelace", "text": "See you at the match on Saturday!"}, None)
    after = OpenDigest(number=10**12, due_ms=10**12, members=sends, is_closed=False)
    head, item = puts_of("frequency_caps", DigestChange(key, OpenDigest(), after, joins=(sends[-1], member)))
    return item_bytes(head["Item"]), item_bytes(item["Item"])


def schedule_items(users: int) -> tuple[int, int]:
    """Return the bytes of the item of a schedule to so many users, and of an occurrence that has begun."""
    send = {"type": "news", "club_id": 1_000_000, "to_users": [_FIRST_USER + number for number in range(users)]}
    schedule = Schedule(
        club_id=1_000_000,
        name="weekly-news",
        id=_ID,
        revision=_ID,
        rule="FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0",
        time_zone="Europe/Zurich",
        starts_at_local="2026-12-01T00:00",
        catch_up=CatchUp.NONE,
        send=send,
        owner=Owner(principal="7d793037a0760186", context={"scopes": "read send", "club_ids": "1000000"}),
        changed_at_ms=10**12,
        next=LocalTime("2026-12-07T09:00", 10**12),
    )
    begun = Occurrence(
        schedule_id=_ID,
        club_id=1_000_000,
        local_time="2026-12-07T09:00",
        at_ms=10**12,
        state=OccurrenceState.STARTED,
        recorded_at_ms=10**12,
        content={"send": send, "principal": "7d793037a0760186", "expires_at_ms": None, "recipients_a_day": None},
    )
    return item_bytes(schedule_item_of(schedule)), item_bytes(occurrence_item(begun))


def message_bytes() -> int:
    """Return the bytes of the message of a send in the register, with a title and a body that are not packed: versions
    of zlib differ.
    """
    data = {"title": "Kick-off in one hour", "body": "Reds against Blues, 18:00. The gates are open from 17:00."}
    message = KeptMessage(type="match_reminder", channels=("push",), data=data, user_ids=(_FIRST_USER,))
    item = message_item(SendKey(1_000_000, _ID), message, 10**9)
    return item_bytes(item | {"message": {"B": zlib.decompress(item["message"]["B"])}})


def own_documents() -> Mapping[str, int]:
    """Return the bytes of a record of directory_document, key and value, by the index of its document: the state of a
    device with an endpoint in one snapshot generation, a bounced address, and a user with one changed preference.
    """
    arn = f"arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/masscomm/{_ID}"
    state = DeviceState(
        token="t" * _TOKEN,
        endpoint_arn=arn,
        enabled=True,
        reason=None,
        updated_at=_NOW_MS,
        generation="g1",
        row_version=2**40,
        user_id=_FIRST_USER,
        taken=Taken("g1", 2**40),
    )
    bounced = Suppression(
        club_id=_CLUB, address="a@example.com", reason=Reason.BOUNCED_PERMANENT, at_ms=_NOW_MS, expires_ms=_NOW_MS
    )
    wished = PreferenceChanges(user_id=_FIRST_USER, club_id=_CLUB).after(
        [Wish("news", "push", False)], None, _NOW_MS, source="api", principal=_ID
    )
    rules = TenantPreferences(club_id=_CLUB, channels={"push": False}, categories={"news": True}, version=_NOW_MS)
    documents = (
        (device_states.INDEX, str(_FIRST_USER * 10), stored_document(StatesOfDevice({"g1": state}))),
        (suppressions.INDEX, bounced.id, bounced.source),
        (preference_changes.INDEX, str(_FIRST_USER), wished.document),
        (tenant_preferences.INDEX, str(_CLUB), rules.document),
    )
    found = {}
    for index, id_, source in documents:
        key = DocumentKey(index, id_)
        value = OwnDocument(key=key, version=Version(1, 2**30), source=source).encoded(_codec())
        found[index] = len(key.encoded()) + len(value)
    return found


def waiting_record(recipients: int) -> bytes:
    """Return the recheck record of a send with so many recipients."""
    build = _build(recipients)
    record = RecheckRequested(
        **{name: getattr(build, name) for name in RecheckRequested.__dataclass_fields__ if hasattr(build, name)},
        channels=["email"],
        why="fallback",
        waits=0,
        fallbacks='[{"channel":"email","if":"not_sent","after":"10m"}]',
    )
    codec = Codec(registry := InMemorySchemaRegistry())
    registry.register(f"{topics.RECHECK}-value", own_schema("RecheckRequested"))
    return codec.encode(topics.RECHECK, "RecheckRequested", record.to_avro())


def item_bytes(item: Mapping[str, Any]) -> int:
    """Return the bytes of an item as DynamoDB counts them."""
    values = {name: next(iter(value.values())) for name, value in item.items()}
    return sum(len(name) + len(value if isinstance(value, bytes) else str(value)) for name, value in values.items())


def _ledger_item(workload: Workload) -> int:
    """Return the bytes of a slice (recipients recorded together) in the delivery ledger, with attribute names and
    keys, as DynamoDB counts them.
    """
    answers = tuple(
        CallResult(target=str(_FIRST_USER + number), message_id=_ID) for number in range(round(workload.devices))
    )
    decided = [
        RecipientResult(position=position, user_id=_FIRST_USER + position, decision=_SENT, call_results=answers)
        # The slice (recipients recorded together) has the same size as in the measurements of service times.
        for position in range(measured().slice_size)
    ]
    names = "record_id part decided owner recorded_ms expires_at".replace(" ", "")
    keys = len(_ID) * 2 + len("slice#0000000000") + 2 * 12
    return len(json.dumps(to_document(decided), separators=(",", ":"))) + len(names) + keys


def _decision_units(count: int, allowed: float) -> int:
    """Return the write units of the decision log for this number of recipients."""
    log = InMemoryDecisionLog()
    step = max(1, round(1 / (1 - allowed))) if allowed < 1 else count + 1
    by_channel = {"push": dict.fromkeys(range(0, count, step), _OPTED_OUT)} if allowed < 1 else {"push": {}}
    users = [_FIRST_USER + position for position in range(count)]
    record_decisions(log, _ID, Decisions(positions=list(range(count)), user_ids=users, by_channel=by_channel))
    return sum(ceil((len(item) + 100) / KB) for item in log.recorded.values())


def _encoded(name: str, record: AvroRecord) -> int:
    schema = type(record).__name__
    topic = name.partition(".")[0] if name.startswith("outcome") else name
    return len(_codec().encode(topic, schema, record.to_avro()))


@cache
def _codec() -> Codec:
    registry = InMemorySchemaRegistry()
    for topic in topics.chain_topics():
        if topic.schema is not None:
            registry.register(topic.subject, own_schema(topic.schema))
    return Codec(registry)
