"""The batch driver: each record's result follows from its own delivery reports."""

import json
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools import Logger
from hypothesis import given
from hypothesis import strategies as st

from masscomm.chain.batch import Batch, BatchDriver, Item
from masscomm.chain.bootstrap import answer
from masscomm.domain.records import SendRequested
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.dead_letters import REASON, SOURCE_OFFSET, replay_headers
from masscomm.kafka.denied_ids import REMEMBERED
from masscomm.kafka.event import KafkaRecord, parse
from tests.support.harness.chain import NOW, Chain, Context, entry, event, failed_offsets, send
from tests.support.harness.relay import Relay, Work, relay


def _sends(chain: Chain, count: int, users: int = 2) -> list[dict[str, Any]]:
    return [
        chain.encoded(send(range(place * 100, place * 100 + users)), topics.SEND_MONOLITH, offset=place)
        for place in range(count)
    ]


def _keys(chain: Chain) -> list[bytes | None]:
    return [key for topic, key, _, _ in chain.producer.produced if topic == topics.SEND_API]


def _failing_at(offset: int, error: Exception) -> Work:
    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        if item.record.offset == offset:
            raise error
        relay(batch, item)

    return work


def test_good_batch_is_flushed_once_and_not_redelivered() -> None:
    chain = Chain()
    assert chain.run(Relay(), *_sends(chain, 3)) == []
    assert len(_keys(chain)) == 6
    assert chain.producer.flushes == 1


@pytest.mark.guarantee("categories.unknown_versions_decide_nothing")
@pytest.mark.kills(guard="batch.unprepared")
def test_unprepared_batch_is_redelivered_whole() -> None:
    """The categories that are valid now are unknown: nothing is decided by those of before."""
    chain = Chain()

    def refuse() -> None:
        raise Retry("DynamoDB is down")

    driver = replace(chain.driver, prepare=refuse)
    event_of_two = event(*_sends(chain, 2))
    assert failed_offsets(driver.run(event_of_two, Context(), Relay())) == [0, 1]
    assert chain.producer.produced == []


def test_undecodable_record_is_dead_lettered_alone() -> None:
    chain = Chain()
    first, second = _sends(chain, 2)
    bad = entry(b"\0\0", offset=5, headers=[("trace", b"1")])
    assert chain.run(Relay(), first, bad, second) == []
    assert len(_keys(chain)) == 4
    (headers,) = chain.dead_letters()
    assert headers["masscomm.reason"] == "undecodable"
    assert headers["masscomm.source.offset"] == "5"
    assert headers["trace"] == "1"
    assert chain.values(topics.DEAD_LETTER) == [b"\0\0"]


def _unknown(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"any"


_UNKNOWN = _unknown(9_999)


def _handed_over(chain: Chain) -> list[KafkaRecord]:
    return [each for value in chain.values(topics.ON_FAILURE) for each in parse(json.loads(value)["payload"])]


@pytest.mark.parametrize("key", [b"key", b"", None])
@pytest.mark.kills(guard="registry.denied_id_waits")
@pytest.mark.guarantee("schema_registry.unknown_schema_holds_no_partition")
def test_record_of_an_unknown_schema_is_handed_over(key: bytes | None) -> None:
    """The other records of the batch go on, and bytes, headers, position and time of the record are kept."""
    chain = Chain()
    headers = [("trace", b"\x00\xff"), ("trace", b""), *replay_headers([], "dead-letter-0@1")]
    other: dict[str, Any] = {"topic": "send.api.critical", "partition": 3, "offset": 2**40, "timestamp": NOW - 5}
    bad = [entry(_UNKNOWN, offset=1), entry(_UNKNOWN, **other, key=key, headers=headers)]
    assert chain.run(Relay(), chain.encoded(send([7]), topics.SEND_MONOLITH, offset=0), *bad) == []
    assert _keys(chain) == [b"7"]
    assert chain.dead_letters() == []
    assert _handed_over(chain) == parse(event(*bad))


@pytest.mark.guarantee("registry_answer.unknown_id")
@pytest.mark.kills(guard="registry.denied_id_expires")
def test_id_denied_for_long_is_dead_lettered_at_once() -> None:
    chain = Chain()
    assert chain.run(Relay(), entry(_UNKNOWN, offset=3)) == []
    chain.clock.advance(DENIED_SCHEMA_RETRY_S)
    chain.forget()
    assert chain.run(Relay(), entry(_UNKNOWN, offset=3), entry(_UNKNOWN, offset=4)) == []
    assert [(letter[REASON], letter[SOURCE_OFFSET]) for letter in chain.dead_letters()] == [
        ("unknown_schema", "3"),
        ("unknown_schema", "4"),
    ]
    assert _handed_over(chain) == []


@pytest.mark.guarantee("schema_registry.flood_of_ids_fills_no_store")
def test_flood_of_unknown_ids_hands_few_records_over() -> None:
    chain = Chain()
    flood = [entry(_unknown(9_000 + each), offset=each) for each in range(REMEMBERED + 50)]
    assert chain.run(Relay(), *flood) == []
    assert (len(_handed_over(chain)), len(chain.dead_letters())) == (REMEMBERED, 50)


def test_record_that_on_failure_did_not_take_is_redelivered() -> None:
    chain = Chain()
    chain.producer.fail = lambda topic, _: Retry("no acknowledgement") if topic == topics.ON_FAILURE else None
    assert chain.run(Relay(), entry(_UNKNOWN, offset=3)) == [3]
    assert chain.dead_letters() == []


def test_record_that_on_failure_refuses_is_dead_lettered() -> None:
    """The headers of a record take several times their size in an on-failure record."""
    chain = Chain()
    large = entry(_UNKNOWN, offset=3, headers=[("large", b"\x7f" * 1_000_000)])
    assert chain.run(Relay(), large, chain.encoded(send([7]), topics.SEND_MONOLITH, offset=4)) == []
    assert [letter[REASON] for letter in chain.dead_letters()] == ["unknown_schema"]
    assert _keys(chain) == [b"7"]


def test_tombstone_is_dead_lettered() -> None:
    chain = Chain()
    assert chain.run(Relay(), entry(None, key=None)) == []
    assert [(key, value) for _, key, value, _ in chain.producer.produced] == [(None, None)]


def test_unacknowledged_dead_letter_is_redelivered() -> None:
    chain = Chain()
    chain.producer.fail = lambda topic, _value: Retry("down") if topic == topics.DEAD_LETTER else None
    assert chain.run(Relay(), *_sends(chain, 1), entry(b"", offset=5)) == [5]


@pytest.mark.guarantee("kafka_down.only_unacknowledged_records_return")
def test_unacknowledged_derived_record_redelivers_its_item_alone() -> None:
    chain = Chain()
    unlucky = chain.codec.encode(topics.SEND_API, "SendRequested", send([101]).to_avro())
    chain.producer.fail = lambda _topic, value: Retry("no leader") if value == unlucky else None
    assert chain.run(Relay(), *_sends(chain, 3)) == [1]
    assert b"100" in _keys(chain)


@pytest.mark.guarantee("dead_letter.original_bytes_with_outcomes")
def test_oversized_derived_record_dead_letters_its_item() -> None:
    """The item is dead-lettered and its outcomes are emitted; the other items of the batch succeed."""
    chain = Chain()
    unlucky = chain.codec.encode(topics.SEND_API, "SendRequested", send([101]).to_avro())
    chain.producer.fail = lambda _topic, value: DeadLetter("too_large", "too large") if value == unlucky else None
    use_case = Relay()
    assert chain.run(use_case, *_sends(chain, 3)) == []
    assert use_case.dead_lettered_offsets == [1]
    assert [headers["masscomm.reason"] for headers in chain.dead_letters()] == ["too_large"]
    assert b"outcome" in _keys(chain)
    assert chain.producer.flushes == 2


def test_unacknowledged_dead_letter_outcome_redelivers_record() -> None:
    chain = Chain()
    outcome = chain.codec.encode(topics.SEND_API, "SendRequested", send([9]).to_avro())
    chain.producer.fail = lambda _topic, value: Retry("down") if value == outcome else None
    use_case = Relay(work=_failing_at(1, DeadLetter("invalid", "bad")))
    assert chain.run(use_case, *_sends(chain, 3)) == [1]


def test_fault_in_dead_letter_outcomes_redelivers_one_record() -> None:
    def emit(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        raise KeyError("a fault")

    chain = Chain()
    use_case = Relay(work=_failing_at(1, DeadLetter("invalid", "bad")), emit=emit)
    assert chain.run(use_case, *_sends(chain, 3)) == [1]


@pytest.mark.kills(guard="dead_letters.refused_outcomes")
@pytest.mark.guarantee("dead_letter.each_record_has_one_fate")
@pytest.mark.parametrize("when", ["emitting", "producing"])
def test_dead_letter_with_refused_outcomes_is_not_redelivered(when: str) -> None:
    """It would come again for ever, and hold its partition."""

    def refuse(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        raise DeadLetter("invalid", "a key of 2 kB")

    chain = Chain()
    outcome = chain.codec.encode(topics.SEND_API, "SendRequested", send([9]).to_avro())
    chain.producer.fail = lambda _topic, value: DeadLetter("too_large", "refused") if value == outcome else None
    bad = _failing_at(1, DeadLetter("invalid", "bad"))
    use_case = Relay(work=bad, emit=refuse) if when == "emitting" else Relay(work=bad)
    assert chain.run(use_case, *_sends(chain, 3)) == []
    assert [letter[SOURCE_OFFSET] for letter in chain.dead_letters()] == ["1"]


def test_failed_look_up_redelivers_all_and_produces_nothing() -> None:
    def look_up() -> None:
        raise Retry("OpenSearch is down")

    chain = Chain()
    assert chain.run(Relay(look_up=look_up), *_sends(chain, 3)) == [0, 1, 2]
    assert chain.producer.produced == []


def test_a_look_up_never_makes_a_dead_letter_of_good_records() -> None:
    def look_up() -> None:
        raise DeadLetter("undecodable", "the directory's answer")

    chain = Chain()
    assert chain.run(Relay(look_up=look_up), *_sends(chain, 2)) == [0, 1]
    assert chain.dead_letters() == []


def test_fault_in_one_item_affects_no_other() -> None:
    chain = Chain()
    assert chain.run(Relay(work=_failing_at(1, ZeroDivisionError())), *_sends(chain, 3)) == [1]
    assert len(_keys(chain)) == 4
    assert chain.dead_letters() == []


@pytest.mark.guarantee("schema_registry_down.records_are_redelivered")
@pytest.mark.parametrize("error", [Retry("the registry is down"), ZeroDivisionError()])
def test_decoding_error_redelivers_one_record(error: Exception) -> None:
    chain = Chain()
    assert chain.run(Relay(decode_error=error), *_sends(chain, 3)) == [0]
    assert len(_keys(chain)) == 4
    assert chain.dead_letters() == []


def test_items_not_begun_before_the_deadline_are_redelivered() -> None:
    chain = Chain()

    def slow(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        relay(batch, item)
        chain.clock.advance(30)

    assert chain.run(Relay(work=slow), *_sends(chain, 4)) == [2, 3]
    assert len(_keys(chain)) == 4


def test_slow_registry_leaves_time_to_respond() -> None:
    chain = Chain()

    class Slow(Relay):
        def decode(self, record: KafkaRecord, codec: Codec) -> SendRequested:
            chain.clock.advance(25)
            raise Retry("the schema registry does not answer")

    assert chain.run(Slow(), *_sends(chain, 10)) == list(range(10))
    assert chain.clock.now_ms() - NOW < 80_000


def test_time_is_reserved_for_the_flush() -> None:
    chain = Chain()
    assert chain.run(Relay(), *_sends(chain, 1), seconds=2.0) == [0]
    assert chain.run(Relay(), *_sends(chain, 1), seconds=2.1) == []


@pytest.mark.guarantee("installation.fault_dead_letters_nothing")
@pytest.mark.parametrize("where", ["decode", "handle", "work", "emit"])
def test_stop_redelivers_the_whole_batch_without_a_crash(where: str) -> None:
    def stop(*_: Any) -> None:
        raise Stop("refused")

    use_case = {
        "decode": Relay(decode_error=Stop("refused")),
        "handle": Relay(look_up=stop),
        "work": Relay(work=stop),
        "emit": Relay(work=_failing_at(0, DeadLetter("invalid", "bad")), emit=stop),
    }[where]
    chain = Chain()
    assert chain.run(use_case, *_sends(chain, 2)) == [0, 1]


def test_failed_bootstrap_redelivers_all_without_a_crash() -> None:
    chain = Chain()

    def bootstrap() -> tuple[BatchDriver, Relay]:
        raise Stop("the environment variable X is not set")

    events = event(*_sends(chain, 2))
    assert failed_offsets(answer(bootstrap, events, Context(chain.clock), Logger())) == [0, 1]
    assert failed_offsets(answer(lambda: (chain.driver, Relay()), events, Context(chain.clock), Logger())) == []


def test_item_with_an_error_is_not_active() -> None:
    chain = Chain()
    seen: list[int] = []

    class Twice(Relay):
        def handle(self, batch: Batch[SendRequested]) -> None:
            batch.items[0].error = Retry("waits")
            for item in batch.items:
                batch.attempt(item, lambda item=item: seen.append(item.record.offset))  # type: ignore[misc]
            assert [item.record.offset for item in batch.active()] == [1]

    assert chain.run(Twice(), *_sends(chain, 2)) == [0]
    assert seen == [1]


def test_redelivered_records_are_listed_once_in_event_order() -> None:
    chain = Chain()
    chain.producer.fail = lambda _topic, _value: Retry("down")
    bad = entry(b"", offset=7)
    good = _sends(chain, 3)
    assert chain.run(Relay(), good[2], bad, good[0], good[1]) == [2, 7, 0, 1]


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_each_record_is_forwarded_dead_lettered_or_redelivered(
    undecodable: set[int], retried: set[int], lost: set[int]
) -> None:
    chain = Chain()
    entries = _sends(chain, 6)
    for offset in undecodable:
        entries[offset] = entry(b"\x05", offset=offset)
    doomed = {
        chain.codec.encode(topics.SEND_API, "SendRequested", send([offset * 100]).to_avro()): offset for offset in lost
    }
    chain.producer.fail = lambda _topic, value: Retry("lost") if value in doomed else None

    def work(batch: Batch[SendRequested], item: Item[SendRequested]) -> None:
        if item.record.offset in retried:
            raise Retry("waits")
        relay(batch, item)

    assert chain.run(Relay(work=work), *entries) == sorted((retried | lost) - undecodable)
    assert sorted(int(headers["masscomm.source.offset"]) for headers in chain.dead_letters()) == sorted(undecodable)
    passed_on = {int(key or b"") // 100 for key in _keys(chain) if int(key or b"") % 100 == 1}
    assert passed_on == set(range(6)) - undecodable - retried
