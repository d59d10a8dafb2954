"""A denied schema id is asked for again for a while, and a flood of made-up ids does not add those times up."""

from masscomm.clock import FixedClock
from masscomm.kafka.denied_ids import RETRY_S, DeniedIds


def test_denied_id_is_retried_for_its_time_only() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    assert denied.is_retried(7)
    clock.advance(RETRY_S - 0.1)
    assert denied.is_retried(7)
    clock.advance(0.1)
    assert not denied.is_retried(7)
    assert not denied.is_retried(7, timestamp_ms=clock.now_ms())


def test_after_one_id_in_vain_only_young_records_of_others_wait() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    denied.is_retried(7)
    clock.advance(RETRY_S)
    assert not denied.is_retried(7)
    assert not denied.is_retried(8)
    assert not denied.is_retried(9, timestamp_ms=clock.now_ms() - 40_000)
    produced_ms = clock.now_ms() - 20_000
    assert denied.is_retried(10, timestamp_ms=produced_ms)
    clock.advance(10)
    assert not denied.is_retried(10, timestamp_ms=produced_ms)


def test_a_record_from_the_future_waits_no_longer_than_others() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    for schema_id in (7, 8):
        future_ms = clock.now_ms() + 3_600_000
        assert denied.is_retried(schema_id, timestamp_ms=future_ms)
        clock.advance(RETRY_S)
        assert not denied.is_retried(schema_id, timestamp_ms=future_ms)


def test_an_id_that_was_not_seen_for_long_begins_anew() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    denied.is_retried(7)
    clock.advance(RETRY_S)
    assert not denied.is_retried(7)
    clock.advance(301)
    assert denied.is_retried(7)


def test_denied_id_does_not_reduce_retries_of_others() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    denied.is_retried(7)
    for _ in range(60):
        clock.advance(60)
        assert not denied.is_retried(7)
    assert denied.is_retried(8)


def test_more_than_a_thousand_denied_ids_are_not_retried() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    assert all(denied.is_retried(schema_id) for schema_id in range(1, 1_001))
    assert not denied.is_retried(2_000)
    clock.advance(RETRY_S)
    assert not any(denied.is_retried(schema_id) for schema_id in range(1, 1_001))
