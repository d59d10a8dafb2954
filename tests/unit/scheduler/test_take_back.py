"""What a mapping gave up on comes back until it has expired, under the ids it had."""

from dataclasses import replace
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from functions.preference_checker.check_preferences import CheckPreferences
from functions.scheduler.take_back import CRASHED, MAX_CRASHES, RETURNED, TIMEOUT_S
from masscomm.chain.chunks import SMALL_SEND
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import derived_id
from masscomm.domain.outcomes import SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.records import AvroRecord, BuildRequested
from masscomm.domain.statuses import Status
from masscomm.domain.users import Settings, User
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.dead_letters import REPLAYED, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.back_off import BackOff
from masscomm.stores.decision_log import InMemoryDecisionLog
from masscomm.stores.delivery_ledger import CallResult, RecipientResult
from tests.support.harness.chain import NOW, build, delivery, entry, recheck, results_of, send
from tests.support.harness.take_back import PARTIAL, Headers, Office
from tests.support.inputs.bad_sends import BAD_SENDS, UNCOUNTABLE_SENDS

CRASH = replace(PARTIAL, function_error="Unhandled")
_WEEK_MS = 7 * 86_400_000


def _checker(office: Office) -> CheckPreferences:
    directory = InMemoryDirectory()
    for user_id in (1, 2):
        directory.put(User(user_id=user_id, club_id=7), Settings(user_id=user_id))
    return CheckPreferences(
        directory=directory,
        clock=office.clock,
        delay_store=office.store,
        decisions=InMemoryDecisionLog(),
    )


def _builds(office: Office, *entries: dict[str, Any]) -> list[BuildRequested]:
    office.forget()
    assert office.run(_checker(office), *entries) == []
    return office.builds()


def test_sends_of_one_chunk_id_come_back_apart() -> None:
    """A producer used the chunk's index twice: one must not take the other's place among what waits."""
    office = Office()
    for user_id in (1, 2):
        assert office.give_up(send([user_id]), topics.SEND_MONOLITH) == []
    users = [office.codec.decode("RecheckRequested", item.value)["user_ids"] for item in office.store.items.values()]
    assert sorted(users) == [[1], [2]]


def test_returned_send_derives_the_records_of_failed_attempts() -> None:
    office = Office()
    record = send([1, 2], send_id=None)
    direct = _builds(office, office.encoded(record, topics.SEND_MONOLITH, partition=3, offset=41))
    assert office.give_up(record, topics.SEND_MONOLITH) == []
    item = office.only()
    assert item.topic == "recheck.small"
    assert NOW < item.due_ms <= NOW + 60_000
    assert _builds(office, entry(item.value, topic=item.topic, offset=5)) == direct


@pytest.mark.parametrize(("club_id", "topic"), [(8, "recheck"), (7, "recheck.bulk4")])
def test_returned_broadcast_uses_its_tenants_shared_queue(club_id: int, topic: str) -> None:
    office = Office()
    office.give_up(send(range(1, SMALL_SEND + 2), club_id=club_id), "send.api")
    assert office.only().topic == topic


@pytest.mark.parametrize("topic", ["send.api", "send.monolith", "send.api.critical", "send.monolith.critical"])
def test_return_neither_uses_nor_names_a_request_topic(topic: str) -> None:
    office = Office()
    names = (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)
    values = (topic.encode(), b"1", b"2", b"3")
    office.give_up(send([1]), topic, headers=(*zip(names, values, strict=True), ("trace", b"1")))
    item = office.only()
    assert item.topic == ("recheck.critical" if topic.endswith("critical") else "recheck.small")
    assert [name for name, _ in item.headers] == ["trace", RETURNED, CRASHED]


@pytest.mark.parametrize(
    ("record", "topic"), [(build([1, 2]), "build.critical"), (delivery([1, 2]), "delivery")], ids=["build", "delivery"]
)
def test_everything_else_comes_back_as_it_was(record: AvroRecord, topic: str) -> None:
    office = Office()
    office.give_up(record, topic)
    item = office.only()
    assert (item.topic, item.value) == (topic, office.codec.encode(topic, type(record).__name__, record.to_avro()))


def test_taken_back_twice_it_waits_once() -> None:
    office = Office()
    office.give_up(build([1]), topics.BUILD)
    office.give_up(build([1]), topics.BUILD)
    assert dict(office.only().headers)[RETURNED] == b"1"


@pytest.mark.guarantee("outage.of_any_length_dead_letters_nothing")
def test_outage_of_any_length_dead_letters_nothing() -> None:
    """The delays double up to half an hour."""
    office = Office()
    waits = []
    headers: Headers = ()
    for _ in range(100):
        office.store.items.clear()
        assert office.give_up(build([1], timestamp=NOW), topics.BUILD, headers=headers) == []
        item = office.only()
        headers = item.headers
        waits.append(item.due_ms - office.clock.now_ms())
        office.clock.advance(waits[-1] / 1000)
    assert office.dead_letters() == []
    assert all(30_000 * 2**n <= wait <= 60_000 * 2**n for n, wait in enumerate(waits[:5]))
    assert all(15 * 60_000 <= wait <= 30 * 60_000 for wait in waits[6:])


def test_record_returns_at_its_expiry_at_the_latest() -> None:
    office = Office()
    office.give_up(send([1], expires_at=NOW + 1_000), topics.SEND_API)
    item = office.only()
    assert item.due_ms == NOW + 1_000
    office.clock.advance(1)
    assert _builds(office, entry(item.value, topic=item.topic)) == []
    assert results_of(office.outcomes()) == {(1, "push"): ("expired", "expired")}


def test_scheduled_send_returns_at_its_time() -> None:
    office = Office()
    office.give_up(send([1], send_at=NOW + 3_600_000), topics.SEND_API)
    assert office.only().due_ms == NOW + 3_600_000


def test_a_long_chunk_comes_back_in_parts() -> None:
    office = Office()
    office.give_up(send(range(12_000)), topics.SEND_API)
    assert len(office.store.items) == 3


def test_crashing_record_is_dead_lettered_and_recipients_fail() -> None:
    office = Office()
    before = ((CRASHED, str(MAX_CRASHES - 1).encode()), (RETURNED, b"50"))
    assert office.give_up(build([1, 2]), topics.BUILD, last=CRASH, headers=before) == []
    headers = office.only().headers
    office.store.items.clear()
    assert office.give_up(build([1, 2]), topics.BUILD, last=CRASH, headers=headers) == []
    assert not office.store.items
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == ["crashes"]
    assert results_of(office.outcomes()) == {
        (1, "push"): ("failed", "dead_letter"),
        (2, "push"): ("failed", "dead_letter"),
    }
    office.give_up(build([1, 2]), topics.BUILD, last=CRASH, headers=headers, outer=((REPLAYED, b"dead-letter-0@1"),))
    assert dict(office.only().headers)[CRASHED] == b"1"


@pytest.mark.guarantee("dead_letter.crashing_record", "outage.timed_out_records_return")
def test_timed_out_record_returns_until_expiry() -> None:
    office = Office()
    record, returns = build([1, 2], timestamp=NOW), 0
    headers: Headers = ()
    while True:
        office.store.items.clear()
        assert office.give_up(record, topics.BUILD, last=CRASH, headers=headers, took_s=11 * TIMEOUT_S) == []
        if not office.store.items:
            break
        item = office.only()
        headers, returns = item.headers, returns + 1
        assert dict(headers)[CRASHED] == b"0"
        office.clock.advance(11 * TIMEOUT_S + (item.due_ms - office.clock.now_ms()) / 1000)
    assert returns > 5 * MAX_CRASHES
    assert office.dead_letters() == []
    assert results_of(office.outcomes()) == {(1, "push"): ("expired", "expired"), (2, "push"): ("expired", "expired")}


def test_crash_caused_by_another_record_is_not_counted() -> None:
    office = Office()
    # Five times with a record that crashes the function at once, then eleven times alone, each a time-out.
    office.give_up(build([1]), topics.BUILD, last=CRASH, took_s=11 * TIMEOUT_S, invocations=16)
    assert dict(office.only().headers)[CRASHED] == b"0"


def test_expired_crashing_record_gets_its_outcomes_here() -> None:
    office = Office()
    office.clock.advance(3600)
    record = delivery([1, 2, 3], expires_at=NOW + 1_000)
    sent = RecipientResult(
        position=record.positions[0], user_id=1, decision=SENT, call_results=(CallResult(target="11", message_id="m"),)
    )
    waits = replace(
        sent, position=record.positions[1], user_id=2, decision=Decision(Status.SENDING), call_results=(), retry_at_ms=1
    )
    office.ledger.record(record.record_id, [sent, waits])
    assert office.give_up(record, topics.DELIVERY, last=CRASH, took_s=1) == []
    assert not office.store.items
    assert results_of(office.outcomes()) == {
        (1, "push"): ("sent", None),
        (2, "push"): ("expired", "expired"),
        (3, "push"): ("expired", "expired"),
    }
    (outcome,) = office.outcomes()
    assert outcome.provider_message_ids[0] == ["m"]
    assert outcome.record_id == derived_id(
        record.record_id, "outcome.delivery", "push", record.range_start, record.range_end
    )


def test_expired_record_after_an_outage_returns_to_its_function() -> None:
    office = Office()
    office.clock.advance(3600)
    office.give_up(delivery([1], expires_at=NOW + 1_000), topics.DELIVERY, last=PARTIAL)
    assert office.only().topic == topics.DELIVERY
    assert office.outcomes() == []


def test_of_a_crasher_that_had_sent_to_some_those_were_sent_to() -> None:
    office = Office()
    record = delivery([1, 2])
    sent = RecipientResult(position=record.positions[0], user_id=1, decision=SENT)
    office.ledger.record(record.record_id, [sent])
    before = ((CRASHED, str(MAX_CRASHES).encode()),)
    assert office.give_up(record, topics.DELIVERY, last=CRASH, headers=before) == []
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == ["crashes"]
    assert results_of(office.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ("failed", "dead_letter")}


def test_the_time_limit_is_that_of_the_functions_of_the_chain() -> None:
    catalogue = {entry.package: entry.timeout_s for entry in read_catalogue(generation="g1")}
    assert {catalogue[name] for name in ("preference_checker", "builder", "delivery")} == {TIMEOUT_S}


def test_record_without_expiry_expires_after_its_lifetime() -> None:
    office = Office()
    office.give_up(send([1], timestamp=NOW - BackOff().lifetime_ms), topics.SEND_API)
    assert office.dead_letters() == []
    assert not office.store.items
    assert results_of(office.outcomes()) == {(1, "push"): ("expired", "expired")}


@pytest.mark.parametrize(
    ("record", "topic"),
    [
        (send([1], timestamp=NOW - _WEEK_MS, send_at=NOW - 1), topics.SEND_API),
        (build([1], timestamp=NOW - _WEEK_MS, waited_until=NOW - 1), topics.BUILD),
        (delivery([1], timestamp=NOW - _WEEK_MS, built_at=NOW - 1), topics.DELIVERY),
    ],
)
def test_lifetime_counts_from_the_scheduled_time(record: AvroRecord, topic: str) -> None:
    office = Office()
    office.give_up(record, topic)
    assert office.outcomes() == []
    assert office.only().due_ms > NOW


@pytest.mark.guarantee("kafka_answer.on_failure_record_too_large")
def test_oversized_on_failure_record_is_read_from_its_topic() -> None:
    office = Office()
    value = office.codec.encode("build", "BuildRequested", build([1, 2]).to_avro())
    there = KafkaRecord(
        topic="build", partition=3, offset=41, timestamp_ms=NOW, value=value, headers=((RETURNED, b"4"),)
    )
    office.source.records["build", 3, 41] = there
    assert office.give_up(b"left out", "build", with_payload=False) == []
    assert office.dead_letters() == []
    item = office.only()
    assert (item.topic, item.value, dict(item.headers)[RETURNED]) == ("build", value, b"5")


def test_failed_read_of_the_source_record_is_a_retry() -> None:
    office = Office()
    office.source.failing = Retry("Kafka is down")
    assert office.give_up(b"left out", "build", with_payload=False) == [0]
    assert office.dead_letters() == []


def test_a_table_that_does_not_answer_brings_it_again() -> None:
    office = Office()
    office.store.failing = Retry("down")
    assert office.give_up(build([1]), topics.BUILD) == [0]
    assert office.dead_letters() == []


@pytest.mark.parametrize(
    ("topic", "value", "payload", "reason"),
    [
        ("build", b"\0\0", True, "undecodable"),
        ("build", b"x", False, "too_large"),
        ("cdc.g1.public.users", b"{}", True, "invalid"),
    ],
)
def test_record_that_cannot_return_is_dead_lettered(topic: str, value: bytes, payload: bool, reason: str) -> None:
    office = Office()
    assert office.give_up(value, topic, with_payload=payload) == []
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == [reason]


@pytest.mark.guarantee("dead_letter.on_failure_record_is_validated")
@pytest.mark.kills(guard="on_failure.refused_send")
@pytest.mark.parametrize(("values", "reason"), BAD_SENDS)
@pytest.mark.parametrize("send_at", [None, NOW + 1_000])
def test_bad_send_is_dead_lettered_instead_of_returned(
    values: dict[str, Any], reason: str, send_at: int | None
) -> None:
    """Its outcomes have the ids that preference_checker gives them: counted once, whoever put it aside."""
    office = Office()
    record = send([1, 2, 1], **{"send_at": send_at} | values)
    assert office.give_up(record, topics.SEND_API) == []
    assert not office.store.items
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == [reason]
    assert results_of(office.outcomes()) == {
        (1, "push"): ("failed", "dead_letter"),
        (2, "push"): ("failed", "dead_letter"),
    }
    ids = {outcome.record_id for outcome in office.outcomes()}
    office.forget()
    office.run(_checker(office), office.encoded(record, topics.SEND_API, partition=3, offset=41))
    assert {outcome.record_id for outcome in office.outcomes()} == ids


@pytest.mark.parametrize("values", UNCOUNTABLE_SENDS)
def test_a_send_that_cannot_be_counted_does_not_come_back(values: dict[str, Any]) -> None:
    office = Office()
    assert office.give_up(send([1, 2], **values), topics.SEND_API) == []
    assert not office.store.items
    assert len(office.dead_letters()) == 1
    assert office.outcomes() == []


@pytest.mark.parametrize("values", [{"user_ids": [1]}, {"record_id": ""}, {"record_id": "i" * 901}])
@pytest.mark.parametrize("topic", [topics.RECHECK, topics.BUILD, topics.DELIVERY])
def test_record_without_id_or_with_few_users_is_dead_lettered(topic: str, values: dict[str, Any]) -> None:
    office = Office()
    record: Any = {topics.BUILD: build([1, 2]), topics.DELIVERY: delivery([1, 2]), topics.RECHECK: recheck([1, 2])}[
        topic
    ]
    assert office.give_up(replace(record, **values), topic) == []
    assert not office.store.items
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == ["invalid"]


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"responseContext": 1, "payload": {}}'])
def test_value_that_is_no_on_failure_record_is_undecodable(value: bytes) -> None:
    office = Office()
    assert office.run(office.use_case, entry(value, topic=topics.ON_FAILURE)) == []
    assert [letter["masscomm.reason"] for letter in office.dead_letters()] == ["undecodable"]
