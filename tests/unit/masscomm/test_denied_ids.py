"""A denied schema id is requested again only for a limited time, which a flood of invented ids does not prolong."""

from masscomm.clock import FixedClock
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.kafka.denied_ids import DeniedIds


def test_denied_id_is_retried_for_its_time_only() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    assert denied.is_retried(7)
    clock.advance(DENIED_SCHEMA_RETRY_S - 0.1)
    assert denied.is_retried(7)
    clock.advance(0.1)
    assert not denied.is_retried(7)
    assert not denied.is_retried(7, timestamp_ms=clock.now_ms())


def test_after_one_expired_id_only_young_records_wait() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    denied.is_retried(7)
    clock.advance(DENIED_SCHEMA_RETRY_S)
    assert not denied.is_retried(7)
    assert not denied.is_retried(8)
    assert not denied.is_retried(9, timestamp_ms=clock.now_ms() - 40_000)
    produced_ms = clock.now_ms() - 20_000
    assert denied.is_retried(10, timestamp_ms=produced_ms)
    clock.advance(10)
    assert not denied.is_retried(10, timestamp_ms=produced_ms)


def test_future_record_waits_no_longer_than_others() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    for schema_id in (7, 8):
        future_ms = clock.now_ms() + 3_600_000
        assert denied.is_retried(schema_id, timestamp_ms=future_ms)
        clock.advance(DENIED_SCHEMA_RETRY_S)
        assert not denied.is_retried(schema_id, timestamp_ms=future_ms)


def test_id_unseen_for_long_is_retried_anew() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    denied.is_retried(7)
    clock.advance(DENIED_SCHEMA_RETRY_S)
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


def test_more_than_a_hundred_denied_ids_are_not_retried() -> None:
    clock = FixedClock()
    denied = DeniedIds(clock=clock)
    assert all(denied.is_retried(schema_id) for schema_id in range(1, 101))
    assert not denied.is_retried(2_000)
    clock.advance(DENIED_SCHEMA_RETRY_S)
    assert not any(denied.is_retried(schema_id) for schema_id in range(1, 101))
