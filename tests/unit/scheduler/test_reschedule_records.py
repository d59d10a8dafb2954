"""On-failure records are rescheduled under their own ids until they expire."""

from dataclasses import replace
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from functions.preference_checker.check_preferences import CheckPreferences
from functions.scheduler.reschedule_records import CRASHED, MAX_CRASHES, RETURNED
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.call_results import CallResult, RecipientResult
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.ids import derived_id
from masscomm.domain.outcomes import SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.records import AvroRecord, BuildRequested
from masscomm.domain.sends import SMALL_SEND
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import CHAIN_TIMEOUT_S
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.dead_letters import REPLAYED, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, build, delivery, entry, recheck, results_of, send
from tests.support.harness.reschedule_records import PARTIAL, Headers, Rescheduler
from tests.support.inputs.invalid_sends import INVALID_SENDS, UNCOUNTABLE_SENDS

CRASH = replace(PARTIAL, function_error="Unhandled")
_WEEK_MS = 7 * 86_400_000


def _checker(rescheduler: Rescheduler) -> CheckPreferences:
    directory = InMemoryDirectory()
    for user_id in (1, 2):
        directory.put(User(user_id=user_id, club_id=7), UserSettings(user_id=user_id))
    return CheckPreferences(
        outcome_progress=InMemoryOutcomeProgress(),
        directory=directory,
        clock=rescheduler.clock,
        delay_store=rescheduler.store,
        decision_log=InMemoryDecisionLog(),
        frequency_caps=InMemoryFrequencyCaps(),
        digests=InMemoryDigests(),
        sends=InMemorySends(),
    )


def _builds(rescheduler: Rescheduler, *entries: dict[str, Any]) -> list[BuildRequested]:
    rescheduler.forget()
    assert rescheduler.run(_checker(rescheduler), *entries) == []
    return rescheduler.builds()


def test_sends_with_one_chunk_id_return_separately() -> None:
    """If a producer uses a chunk index twice, both delayed records are kept."""
    rescheduler = Rescheduler()
    for user_id in (1, 2):
        assert rescheduler.reschedule(send([user_id]), topics.SEND_MONOLITH) == []
    users = [
        rescheduler.codec.decode("RecheckRequested", item.value)["user_ids"]
        for item in rescheduler.store.items.values()
    ]
    assert sorted(users) == [[1], [2]]


def test_returned_send_derives_the_records_of_failed_attempts() -> None:
    rescheduler = Rescheduler()
    record = send([1, 2], send_id=None)
    direct = _builds(rescheduler, rescheduler.encoded(record, topics.SEND_MONOLITH, partition=3, offset=41))
    assert rescheduler.reschedule(record, topics.SEND_MONOLITH) == []
    item = rescheduler.delayed_record()
    assert item.topic == "recheck.small"
    assert NOW < item.due_ms <= NOW + 60_000
    assert _builds(rescheduler, entry(item.value, topic=item.topic, offset=5)) == direct


@pytest.mark.parametrize(("club_id", "topic"), [(8, "recheck"), (7, "recheck.bulk4")])
def test_returned_broadcast_uses_its_tenants_shared_queue(club_id: int, topic: str) -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(send(range(1, SMALL_SEND + 2), club_id=club_id), "send.api")
    assert rescheduler.delayed_record().topic == topic


@pytest.mark.parametrize("topic", ["send.api", "send.monolith", "send.api.critical", "send.monolith.critical"])
def test_return_neither_uses_nor_names_a_request_topic(topic: str) -> None:
    rescheduler = Rescheduler()
    names = (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)
    values = (topic.encode(), b"1", b"2", b"3")
    rescheduler.reschedule(send([1]), topic, headers=(*zip(names, values, strict=True), ("trace", b"1")))
    item = rescheduler.delayed_record()
    assert item.topic == ("recheck.critical" if topic.endswith("critical") else "recheck.small")
    assert [name for name, _ in item.headers] == ["trace", RETURNED, CRASHED]


@pytest.mark.parametrize(
    ("record", "topic"), [(build([1, 2]), "build.critical"), (delivery([1, 2]), "delivery")], ids=["build", "delivery"]
)
def test_other_records_return_unchanged(record: AvroRecord, topic: str) -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(record, topic)
    item = rescheduler.delayed_record()
    assert (item.topic, item.value) == (topic, rescheduler.codec.encode(topic, type(record).__name__, record.to_avro()))


def test_record_returned_twice_is_delayed_once() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(build([1]), topics.BUILD)
    rescheduler.reschedule(build([1]), topics.BUILD)
    assert dict(rescheduler.delayed_record().headers)[RETURNED] == b"1"


@pytest.mark.guarantee("outage.of_any_length_dead_letters_nothing")
def test_outage_of_any_length_dead_letters_nothing() -> None:
    """The delays double up to half an hour, so a record survives any outage until it expires."""
    rescheduler = Rescheduler()
    waits = []
    headers: Headers = ()
    for _ in range(100):
        rescheduler.store.items.clear()
        assert rescheduler.reschedule(build([1], timestamp=NOW), topics.BUILD, headers=headers) == []
        item = rescheduler.delayed_record()
        headers = item.headers
        waits.append(item.due_ms - rescheduler.clock.now_ms())
        rescheduler.clock.advance(waits[-1] / 1000)
    assert rescheduler.dead_letters() == []
    assert all(30_000 * 2**n <= wait <= 60_000 * 2**n for n, wait in enumerate(waits[:5]))
    assert all(15 * 60_000 <= wait <= 30 * 60_000 for wait in waits[6:])


def test_record_returns_at_its_expiry_at_the_latest() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(send([1], expires_at=NOW + 1_000), topics.SEND_API)
    item = rescheduler.delayed_record()
    assert item.due_ms == NOW + 1_000
    rescheduler.clock.advance(1)
    assert _builds(rescheduler, entry(item.value, topic=item.topic)) == []
    assert results_of(rescheduler.outcomes()) == {(1, "push"): ("expired", "expired")}


def test_scheduled_send_returns_at_its_time() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(send([1], send_at=NOW + 3_600_000), topics.SEND_API)
    assert rescheduler.delayed_record().due_ms == NOW + 3_600_000


def test_long_chunk_returns_in_parts() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(send(range(12_000)), topics.SEND_API)
    assert len(rescheduler.store.items) == 3


def test_crashing_record_is_dead_lettered_and_recipients_fail() -> None:
    rescheduler = Rescheduler()
    before = ((CRASHED, str(MAX_CRASHES - 1).encode()), (RETURNED, b"50"))
    assert rescheduler.reschedule(build([1, 2]), topics.BUILD, last_invocation=CRASH, headers=before) == []
    headers = rescheduler.delayed_record().headers
    rescheduler.store.items.clear()
    assert rescheduler.reschedule(build([1, 2]), topics.BUILD, last_invocation=CRASH, headers=headers) == []
    assert not rescheduler.store.items
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == ["crashes"]
    assert results_of(rescheduler.outcomes()) == {
        (1, "push"): ("failed", "dead_letter"),
        (2, "push"): ("failed", "dead_letter"),
    }
    rescheduler.reschedule(
        build([1, 2]),
        topics.BUILD,
        last_invocation=CRASH,
        headers=headers,
        on_failure_headers=((REPLAYED, b"dead-letter-0@1"),),
    )
    assert dict(rescheduler.delayed_record().headers)[CRASHED] == b"1"


@pytest.mark.guarantee("dead_letter.crashing_record", "outage.timed_out_records_return")
def test_timed_out_record_returns_until_expiry() -> None:
    rescheduler = Rescheduler()
    record, returns = build([1, 2], timestamp=NOW), 0
    headers: Headers = ()
    while True:
        rescheduler.store.items.clear()
        assert (
            rescheduler.reschedule(
                record, topics.BUILD, last_invocation=CRASH, headers=headers, after_s=11 * CHAIN_TIMEOUT_S
            )
            == []
        )
        if not rescheduler.store.items:
            break
        item = rescheduler.delayed_record()
        headers, returns = item.headers, returns + 1
        assert dict(headers)[CRASHED] == b"0"
        rescheduler.clock.advance(11 * CHAIN_TIMEOUT_S + (item.due_ms - rescheduler.clock.now_ms()) / 1000)
    assert returns > 5 * MAX_CRASHES
    assert rescheduler.dead_letters() == []
    assert results_of(rescheduler.outcomes()) == {
        (1, "push"): ("expired", "expired"),
        (2, "push"): ("expired", "expired"),
    }


def test_crash_caused_by_another_record_is_not_counted() -> None:
    rescheduler = Rescheduler()
    # The record was in five batches whose invocation crashed; then it timed out eleven times alone.
    rescheduler.reschedule(
        build([1]), topics.BUILD, last_invocation=CRASH, after_s=11 * CHAIN_TIMEOUT_S, invocations=16
    )
    assert dict(rescheduler.delayed_record().headers)[CRASHED] == b"0"


def test_expired_crashing_record_gets_its_outcomes_here() -> None:
    rescheduler = Rescheduler()
    rescheduler.clock.advance(3600)
    record = delivery([1, 2, 3], expires_at=NOW + 1_000)
    sent = RecipientResult(
        position=record.positions[0], user_id=1, decision=SENT, call_results=(CallResult(target="11", message_id="m"),)
    )
    waits = sent._replace(
        position=record.positions[1], user_id=2, decision=Decision(Status.SENDING), call_results=(), retry_at_ms=1
    )
    rescheduler.ledger.record(record.record_id, [sent, waits])
    assert rescheduler.reschedule(record, topics.DELIVERY, last_invocation=CRASH, after_s=1) == []
    assert not rescheduler.store.items
    assert results_of(rescheduler.outcomes()) == {
        (1, "push"): ("sent", None),
        (2, "push"): ("expired", "expired"),
        (3, "push"): ("expired", "expired"),
    }
    (outcome,) = rescheduler.outcomes()
    assert outcome.provider_message_ids[0] == ["m"]
    assert outcome.record_id == derived_id(
        record.record_id, "outcome.delivery", "push", record.range_start, record.range_end
    )


def test_expired_record_after_an_outage_returns_to_its_function() -> None:
    rescheduler = Rescheduler()
    rescheduler.clock.advance(3600)
    rescheduler.reschedule(delivery([1], expires_at=NOW + 1_000), topics.DELIVERY, last_invocation=PARTIAL)
    assert rescheduler.delayed_record().topic == topics.DELIVERY
    assert rescheduler.outcomes() == []


def test_crashing_record_keeps_its_recorded_deliveries() -> None:
    rescheduler = Rescheduler()
    record = delivery([1, 2])
    sent = RecipientResult(position=record.positions[0], user_id=1, decision=SENT)
    rescheduler.ledger.record(record.record_id, [sent])
    before = ((CRASHED, str(MAX_CRASHES).encode()),)
    assert rescheduler.reschedule(record, topics.DELIVERY, last_invocation=CRASH, headers=before) == []
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == ["crashes"]
    assert results_of(rescheduler.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ("failed", "dead_letter")}


def test_the_time_limit_is_that_of_the_functions_of_the_chain() -> None:
    catalogue = {entry.package: entry.timeout_s for entry in read_catalogue(generation="g1")}
    assert {catalogue[name] for name in ("preference_checker", "builder", "delivery")} == {CHAIN_TIMEOUT_S}


def test_record_without_expiry_expires_after_its_lifetime() -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(send([1], timestamp=NOW - RetrySchedule().lifetime_ms), topics.SEND_API)
    assert rescheduler.dead_letters() == []
    assert not rescheduler.store.items
    assert results_of(rescheduler.outcomes()) == {(1, "push"): ("expired", "expired")}


@pytest.mark.parametrize(
    ("record", "topic"),
    [
        (send([1], timestamp=NOW - _WEEK_MS, send_at=NOW - 1), topics.SEND_API),
        (build([1], timestamp=NOW - _WEEK_MS, waited_until=NOW - 1), topics.BUILD),
        (delivery([1], timestamp=NOW - _WEEK_MS, built_at=NOW - 1), topics.DELIVERY),
    ],
)
def test_lifetime_counts_from_the_scheduled_time(record: AvroRecord, topic: str) -> None:
    rescheduler = Rescheduler()
    rescheduler.reschedule(record, topic)
    assert rescheduler.outcomes() == []
    assert rescheduler.delayed_record().due_ms > NOW


@pytest.mark.guarantee("kafka_answer.on_failure_record_too_large")
def test_oversized_on_failure_record_is_read_from_its_topic() -> None:
    rescheduler = Rescheduler()
    value = rescheduler.codec.encode("build", "BuildRequested", build([1, 2]).to_avro())
    there = KafkaRecord(
        topic="build", partition=3, offset=41, timestamp_ms=NOW, value=value, headers=((RETURNED, b"4"),)
    )
    rescheduler.source.records["build", 3, 41] = there
    assert rescheduler.reschedule(b"left out", "build", with_payload=False) == []
    assert rescheduler.dead_letters() == []
    item = rescheduler.delayed_record()
    assert (item.topic, item.value, dict(item.headers)[RETURNED]) == ("build", value, b"5")


def test_failed_read_of_the_source_record_is_a_retry() -> None:
    rescheduler = Rescheduler()
    rescheduler.source.failing = Retry("Kafka is down")
    assert rescheduler.reschedule(b"left out", "build", with_payload=False) == [0]
    assert rescheduler.dead_letters() == []


def test_unreachable_delay_store_redelivers_the_record() -> None:
    rescheduler = Rescheduler()
    rescheduler.store.failing = Retry("down")
    assert rescheduler.reschedule(build([1]), topics.BUILD) == [0]
    assert rescheduler.dead_letters() == []


@pytest.mark.parametrize(
    ("topic", "value", "payload", "reason"),
    [
        ("build", b"\0\0", True, "undecodable"),
        ("build", b"x", False, "too_large"),
        ("cdc.g1.public.users", b"{}", True, "invalid"),
    ],
)
def test_record_that_cannot_return_is_dead_lettered(topic: str, value: bytes, payload: bool, reason: str) -> None:
    rescheduler = Rescheduler()
    assert rescheduler.reschedule(value, topic, with_payload=payload) == []
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == [reason]


@pytest.mark.guarantee("dead_letter.on_failure_record_is_validated")
@pytest.mark.kills(guard="on_failure.refused_send")
@pytest.mark.parametrize(("values", "reason"), INVALID_SENDS)
@pytest.mark.parametrize("send_at", [None, NOW + 1_000])
def test_bad_send_is_dead_lettered_instead_of_returned(
    values: dict[str, Any], reason: str, send_at: int | None
) -> None:
    """The outcomes of a bad send have the ids that preference_checker would use, so they are counted once."""
    rescheduler = Rescheduler()
    record = send([1, 2, 1], **{"send_at": send_at} | values)
    assert rescheduler.reschedule(record, topics.SEND_API) == []
    assert not rescheduler.store.items
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == [reason]
    assert results_of(rescheduler.outcomes()) == {
        (1, "push"): ("failed", "dead_letter"),
        (2, "push"): ("failed", "dead_letter"),
    }
    ids = {outcome.record_id for outcome in rescheduler.outcomes()}
    rescheduler.forget()
    rescheduler.run(_checker(rescheduler), rescheduler.encoded(record, topics.SEND_API, partition=3, offset=41))
    assert {outcome.record_id for outcome in rescheduler.outcomes()} == ids


@pytest.mark.parametrize("values", UNCOUNTABLE_SENDS)
def test_uncountable_send_is_dead_lettered(values: dict[str, Any]) -> None:
    rescheduler = Rescheduler()
    assert rescheduler.reschedule(send([1, 2], **values), topics.SEND_API) == []
    assert not rescheduler.store.items
    assert len(rescheduler.dead_letters()) == 1
    assert rescheduler.outcomes() == []


@pytest.mark.parametrize("values", [{"user_ids": [1]}, {"record_id": ""}, {"record_id": "i" * 901}])
@pytest.mark.parametrize("topic", [topics.RECHECK, topics.BUILD, topics.DELIVERY])
def test_record_without_id_or_with_few_users_is_dead_lettered(topic: str, values: dict[str, Any]) -> None:
    rescheduler = Rescheduler()
    record: Any = {topics.BUILD: build([1, 2]), topics.DELIVERY: delivery([1, 2]), topics.RECHECK: recheck([1, 2])}[
        topic
    ]
    assert rescheduler.reschedule(replace(record, **values), topic) == []
    assert not rescheduler.store.items
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == ["invalid"]


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"responseContext": 1, "payload": {}}'])
def test_value_other_than_an_on_failure_record_is_undecodable(value: bytes) -> None:
    rescheduler = Rescheduler()
    assert rescheduler.run(rescheduler.use_case, entry(value, topic=topics.ON_FAILURE)) == []
    assert [letter["masscomm.reason"] for letter in rescheduler.dead_letters()] == ["undecodable"]
