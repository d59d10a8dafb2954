"""Two versions may run at once: items with further fields of a later version are read as before, in every table."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import schemas
from functions.preference_checker.queue_leases_dynamodb import DynamoDbQueueLeaseStore
from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallResult
from masscomm.domain.fallbacks import NO_STATE, Verdict
from masscomm.domain.lanes import Lane
from masscomm.domain.pace import PaceBook
from masscomm.domain.preferences import Decision
from masscomm.domain.sends import Part, SendKey, controlled
from masscomm.domain.statuses import Reason, Status
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import every_key
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.decision_log.dynamodb import DynamoDbDecisionLog
from masscomm.stores.decision_log.port import Decisions, record_decisions, unpack_decisions
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import ControlledSend
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.digests.port import MemberKey
from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
from masscomm.stores.event_ids.port import EventKey
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.idempotency_keys.dynamodb import DynamoDbIdempotencyKeys
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.request_slots.dynamodb import DynamoDbRequestSlots
from masscomm.stores.request_slots.port import Kind
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import Position, Progress
from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from tests.support.contracts import (
    api_keys,
    audit_log,
    categories,
    delivery_ledger,
    digests,
    event_stores,
    frequency_caps,
    idempotency_keys,
    key_usage,
    queue_leases,
    request_slots,
    saved_audiences,
    schedules,
    sends,
    webhook_dead_letters,
    webhook_stores,
)
from tests.support.contracts.delay_store import HOUR, delayed_record, due, incompressible
from tests.support.harness.chain import NOW
from tests.support.servers.dynamodb_table import new_table

SEND = SendKey(7, "s")
DEFINITIONS = Path(next(iter(schemas.__path__))) / "dynamodb"

type Item = Mapping[str, Any]

_PARAMETERS = ("table", "requests_table")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The items of one store."""

    # The tables of the store, whose names are the arguments _PARAMETERS of `store`.
    tables: tuple[str, ...]
    store: Callable[..., Any]
    write: Callable[[Any], object]
    # Return everything that the store reads.
    read: Callable[[Any], object]
    # Return the attributes that contain values of their own, with further fields of a later version.
    nested: Callable[[Item], Item] = dict


def _api_keys(keys: ApiKeys) -> None:
    keys.put(replace(api_keys.KEY, digest="e" * 64, expires_at=9, requests_a_minute=1))
    keys.put_once(api_keys.KEY, api_keys.REQUEST)


def _sends(store: DynamoDbSends) -> None:
    ended = replace(sends.ENDED, error="why")
    whole = replace(sends.NAMED, send_at_ms=NOW, reference="order-1", is_to_audience=True, expansion=ended)
    store.register([whole, sends.SEND])
    store.add_part(replace(whole, users=3), whole, 0, Part("d", 0, 5, 6))
    store.mark_produced(whole, 0)
    store.change(controlled(whole, cancelled_at_ms=NOW, published_before=3), whole)
    store.record(whole, 0, sends.chunk(1, 2))
    store.advance(whole, Progress(share=1, chunks=1, records=1, record_count=1))
    store.set_pace(whole, PaceBook(minute=1, released=2), PaceBook())
    statuses = NO_STATE.with_statuses({0: Status.SENT, 1: Status.FAILED})
    store.set_fallback(sends.KEY, "f", statuses.deciding("o", {1: Verdict.GOES}))
    store.move(Position(5, "s"))


def _ledger(store: DynamoDbDeliveryLedger) -> None:
    store.acquire("record")
    call = CallResult(target="1", message_id="m")
    store.record("record", [delivery_ledger.result(0, delivery_ledger.SENT, call), delivery_ledger.result(1)])
    large = [CallResult(target=str(number), message_id=f"{number:0200}") for number in range(2_000)]
    store.record("record", [delivery_ledger.result(2, delivery_ledger.OPTED_OUT, *large)])


DECISIONS = Decisions(
    positions=[0, 1],
    user_ids=[7, 8],
    by_channel={"push": {1: Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "user", "r", 3, settings_changed_at=5)}},
    parts=((0, 1),),
)


def _decisions(store: DynamoDbDecisionLog) -> None:
    record_decisions(store, "record", DECISIONS)


def _recorded_decisions(store: DynamoDbDecisionLog) -> Decisions:
    packed = store.find("record")
    assert packed is not None
    return unpack_decisions(packed, positions=DECISIONS.positions, user_ids=DECISIONS.user_ids)


def _waiting(store: DynamoDbDelayStore) -> None:
    store.put(delayed_record(send=SEND, headers=(("a", b"1"),)), NOW)
    store.put(delayed_record(send=SEND, topic="delivery.critical", value=incompressible("large")), NOW)
    store.put_controlled(ControlledSend(SEND, NOW))


def _events(store: DynamoDbEventIds) -> None:
    store.record({EventKey(7, "a"): "one"}, NOW)
    store.keep([event_stores.OWN], NOW)


def _read_events(store: DynamoDbEventIds) -> object:
    return store.known([EventKey(7, "a")], NOW), store.kept([EventKey.of(event_stores.OWN)], NOW)


def _read_sends(store: DynamoDbSends) -> object:
    id_ = sends.KEY.send_id
    listed = list(store.listed(7, start_ms=sends.NOW, before_ms=sends.NOW + 1))
    found = store.find(id_), store.read([sends.KEY]), store.part(id_, 0), listed
    expansion = store.last(id_), list(store.chunks(id_, 0, 1)), store.progress(id_)
    return (
        found,
        expansion,
        list(store.announced()),
        store.position(),
        store.pace(sends.KEY),
        store.fallback(sends.KEY, "f"),
    )


def _read_waiting(store: DynamoDbDelayStore) -> object:
    return due(store, NOW + HOUR), list(store.of_send(SEND)), list(store.controlled())


def _read_endpoints(store: DynamoDbWebhookEndpoints) -> object:
    repeated = store.create(webhook_stores.endpoint(webhook_stores.SECOND), webhook_stores.REQUEST)
    return repeated, store.find(webhook_stores.KEY), list(store.of_club(7)), list(store.clubs())


def _json(text: str, change: Callable[[Any], Any]) -> str:
    return json.dumps(change(json.loads(text)))


def _later_field(name: str) -> Callable[[Item], Item]:
    """Return a function that changes the items with an attribute, which is a JSON object."""
    return _where(
        name, lambda item: {**item, name: {"S": _json(item[name]["S"], lambda found: {**found, "of_later": 1})}}
    )


def _later_decisions(item: Item) -> Item:
    def change(found: Any) -> Any:
        channels = {channel: [*columns, [None]] for channel, columns in found["channels"].items()}
        parts = [[*part, "of_later"] for part in found["parts"]]
        return {**found, "channels": channels, "parts": parts, "of_later": 1}

    return {
        **item,
        "decided": {"B": zlib.compress(_json(zlib.decompress(item["decided"]["B"]).decode(), change).encode())},
    }


def _later_slice(item: Item) -> Item:
    def change(found: Any) -> Any:
        answers = [[[*answer, "of_later"] for answer in answers] for answers in found["answers"]]
        return {**found, "answers": answers, "of_later": 1}

    return item if "parts" in item else {**item, "decided": {"S": _json(item["decided"]["S"], change)}}


def _later_headers(item: Item) -> Item:
    if item["parts"]["N"] != "1":
        return item
    headers, _, value = zlib.decompress(item["value"]["B"]).partition(b"\n")
    later = _json(headers.decode(), lambda found: [[*each, "of_later"] for each in found])
    return {**item, "value": {"B": zlib.compress(later.encode() + b"\n" + value)}}


def _later_versions(item: Item) -> Item:
    def change(version: Any) -> Any:
        caps = [{**cap, "of_later": 1} for cap in version["caps"]]
        return {**version, "caps": caps, "of_later": {"form": [9]}}

    later = _json(item["versions"]["S"], lambda found: [change(each) for each in found])
    return {**item, "versions": {"S": later}}


def _where(name: str, change: Callable[[Item], Item]) -> Callable[[Item], Item]:
    """Return a function that changes the items with an attribute."""
    return lambda item: change(item) if name in item else item


STORED = (
    Stored(
        tables=("api_keys", "idempotency_keys"),
        store=ApiKeys,
        write=_api_keys,
        read=lambda keys: (
            list(every_key(keys)),
            keys.find_by_id(api_keys.KEY.key_id),
            keys.made_before(api_keys.REQUEST),
        ),
    ),
    Stored(
        tables=("audit_log",),
        store=DynamoDbAuditLog,
        write=lambda log: log.record(audit_log.entry()),
        read=audit_log.read,
    ),
    Stored(
        tables=("broadcast_queues",),
        store=DynamoDbQueueLeaseStore,
        write=lambda store: store.replace(0, {Lane.BULK: queue_leases.lease(7)}, NOW),
        read=lambda store: store.read(),
        nested=lambda item: {**item, "uses": {"M": {lane: _more(of) for lane, of in item["uses"]["M"].items()}}},
    ),
    Stored(
        tables=("decisions",),
        store=lambda client, table: DynamoDbDecisionLog(client=client, table=table, clock=FixedClock(NOW)),
        write=_decisions,
        read=_recorded_decisions,
        nested=_later_decisions,
    ),
    Stored(
        tables=("delivery_ledger",),
        store=lambda client, table: DynamoDbDeliveryLedger(
            client=client, table=table, owner="a", clock=FixedClock(NOW)
        ),
        write=_ledger,
        read=lambda store: (store.results("record"), store.acquire("record")),
        nested=_where("decided", _later_slice),
    ),
    Stored(
        tables=("frequency_caps",),
        store=DynamoDbFrequencyCaps,
        write=lambda caps: caps.write([[frequency_caps.change(a=NOW)]], NOW),
        read=lambda caps: caps.read([frequency_caps.KEY]),
    ),
    Stored(
        tables=("frequency_caps",),
        store=DynamoDbDigests,
        write=lambda store: store.write([digests.joining()]),
        read=lambda store: (store.read([digests.KEY]), store.members([MemberKey(digests.KEY, "a")])),
    ),
    Stored(
        tables=("idempotency_keys",),
        store=DynamoDbIdempotencyKeys,
        write=lambda keys: keys.complete(keys.claim(idempotency_keys.claim(), now_ms=NOW), idempotency_keys.RESPONSE),
        read=lambda keys: keys.find(idempotency_keys.claim().id, now_ms=NOW),
    ),
    Stored(
        tables=("key_usage",),
        store=DynamoDbKeyUsage,
        write=lambda usage: usage.take(key_usage.WINDOW, 6, send_id="s"),
        read=lambda usage: (
            usage.take(key_usage.WINDOW, 5),
            usage.take(key_usage.WINDOW, 6, send_id="s"),
        ),
    ),
    Stored(
        tables=("open_polls",),
        store=DynamoDbRequestSlots,
        write=lambda slots: slots.take(Kind.POLL, "a", 1, now_ms=request_slots.NOW, until_ms=request_slots.LATER),
        read=lambda slots: [slots.take(Kind.POLL, "a", 1, now_ms=request_slots.NOW, until_ms=request_slots.LATER)],
    ),
    Stored(
        tables=("sends",),
        store=lambda client, table: DynamoDbSends(client=client, table=table, clock=FixedClock(sends.NOW)),
        write=_sends,
        read=_read_sends,
        nested=_later_field("expansion"),
    ),
    Stored(
        tables=("categories",),
        store=DynamoDbCategories,
        write=lambda store: store.put("offers", [categories.version(1), categories.version(2)], revision=0),
        read=lambda store: (store.revision(), store.every()),
        nested=_where("versions", _later_versions),
    ),
    Stored(
        tables=("categories",),
        store=DynamoDbSavedAudiences,
        write=lambda audiences: audiences.put(saved_audiences.GERMANS),
        read=lambda audiences: (audiences.find(7, "germans"), list(audiences.of_club(7))),
    ),
    Stored(
        tables=("categories",),
        store=DynamoDbSchedules,
        write=lambda stored: (stored.put(schedules.WEEKLY, None), stored.record(schedules.occurrence())),
        read=lambda stored: (
            stored.find(7, "weekly"),
            list(stored.of_club(7)),
            list(stored.started(schedules.WEEKLY.id, schedules.FIRST.text)),
            list(stored.history(schedules.WEEKLY.id, 1)),
        ),
    ),
    Stored(
        tables=("event_types",),
        store=DynamoDbEventTypes,
        write=lambda types: types.put(event_stores.FINISHED),
        read=lambda types: list(types.every()),
    ),
    Stored(
        tables=("subscriptions",),
        store=DynamoDbSubscriptions,
        write=lambda subscriptions: subscriptions.put(event_stores.subscription(), NOW),
        read=lambda subscriptions: (
            list(subscriptions.of_endpoint(event_stores.ENDPOINT)),
            list(subscriptions.unpublished()),
        ),
        nested=_later_field("record"),
    ),
    Stored(
        tables=("event_ids",),
        store=DynamoDbEventIds,
        write=_events,
        read=_read_events,
        nested=_later_field("event"),
    ),
    Stored(
        tables=("webhook_sources",),
        store=DynamoDbWebhookSources,
        write=lambda sources: (
            sources.put(event_stores.SHOP),
            sources.refuse(event_stores.SHOP.key, [event_stores.refused(1)]),
            sources.accept(event_stores.SHOP.key, [event_stores.accepted(1)]),
        ),
        read=lambda sources: (
            list(sources.of_club(7)),
            sources.refusals(event_stores.SHOP.key, event_stores.AT_S),
            sources.last_accepted(event_stores.SHOP.key, event_stores.AT_S),
        ),
    ),
    Stored(
        tables=("waiting",),
        store=DynamoDbDelayStore,
        write=_waiting,
        read=_read_waiting,
        nested=_where("topic", _later_headers),
    ),
    Stored(
        tables=("webhook_dead_letters",),
        store=DynamoDbWebhookDeadLetters,
        write=lambda letters: letters.put([webhook_dead_letters.letter()]),
        read=webhook_dead_letters.page,
    ),
    Stored(
        tables=("webhook_endpoints",),
        store=DynamoDbWebhookEndpoints,
        write=lambda endpoints: endpoints.create(webhook_stores.endpoint(), webhook_stores.REQUEST),
        read=_read_endpoints,
    ),
)


def _more(value: Item) -> Item:
    return {"M": {**value["M"], "of_later": {"BOOL": True}}}


def test_every_table_has_its_items_here() -> None:
    assert {table for each in STORED for table in each.tables} == {path.stem for path in DEFINITIONS.glob("*.json")}


@pytest.mark.kills(guard="stored.known_fields")
@pytest.mark.guarantee("upgrade.items_of_a_later_version")
@pytest.mark.parametrize("stored", STORED, ids=lambda each: each.tables[0])
def test_fields_of_a_later_version_change_nothing(moto_dynamodb: Any, stored: Stored) -> None:
    client = moto_dynamodb
    tables = [new_table(client, table) for table in stored.tables]
    store = stored.store(client=client, **dict(zip(_PARAMETERS, tables, strict=False)))
    stored.write(store)
    before = stored.read(store)
    for table in tables:
        for item in client.scan(TableName=table)["Items"]:
            later = {**stored.nested(item), "of_later": {"M": {"form": {"L": [{"N": "9"}]}}}}
            client.put_item(TableName=table, Item=later)
    assert stored.read(store) == before
