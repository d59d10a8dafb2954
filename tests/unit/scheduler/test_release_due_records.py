"""A sweep: due records are released once, and removed only after Kafka has them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from threading import Barrier

import pytest
from aws_lambda_powertools import Logger

from functions.scheduler.release_due_records import ReleaseDueRecords, SweepResult
from masscomm.clock import FixedClock
from masscomm.domain.delays import PAUSED, jittered
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.records import WebhookOutcome
from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import CLAIM_S
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import BundledSchema, schema_header
from masscomm.kafka.producer import InMemoryProducer
from masscomm.observability import logs, metrics, traces
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import (
    ControlledSend,
    DelayedRecord,
    DelayStore,
    key_of,
    releasable,
    unreadable,
)
from masscomm.stores.sends.in_memory import InMemorySends
from schemas import read_text
from tests.support.contracts.delay_store import DelayStoreContract, delayed_record
from tests.support.harness.chain import NOW, Chain, delivery


class TestInMemoryDelayStore(DelayStoreContract):
    @pytest.fixture
    def store(self) -> DelayStore:
        return InMemoryDelayStore()

    def damage(self, store: InMemoryDelayStore, item: DelayedRecord) -> None:
        store.unreadable.add(key_of(item))


class Scheduler:
    def __init__(self) -> None:
        self.clock = FixedClock(NOW)
        self.store = InMemoryDelayStore()
        self.producer = InMemoryProducer()
        self.use_case = ReleaseDueRecords(
            store=self.store, sends=InMemorySends(), producer=self.producer, clock=self.clock, logger=Logger()
        )

    def put(self, *items: DelayedRecord) -> None:
        for item in items:
            self.store.put(item, NOW)

    def sweep(self, seconds: float = 60) -> SweepResult:
        return self.use_case.sweep(lambda: seconds)

    def released(self) -> list[str]:
        return [(key or b"").decode() for _, key, _, _ in self.producer.produced]


class WaitingStore(InMemoryDelayStore):
    """A store that responds to claims and removals once there are as many as the barrier has parties."""

    def __init__(self, together: Barrier) -> None:
        super().__init__()
        self._together = together

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        self._together.wait(timeout=10)
        return super().claim(item, now_ms)

    def done(self, item: DelayedRecord) -> None:
        self._together.wait(timeout=10)
        super().done(item)


def test_due_record_is_released_to_its_topic_under_its_id() -> None:
    scheduler = Scheduler()
    due, later = delayed_record(topic="delivery", headers=(("a", b"1"),)), delayed_record(NOW + 1)
    scheduler.put(due, later)
    assert scheduler.sweep() == SweepResult(released=1)
    assert scheduler.producer.produced == [
        ("delivery", due.id.encode(), b"v", [("a", b"1"), ("masscomm.released", b"send_at")])
    ]
    assert list(scheduler.store.items.values()) == [later]
    assert scheduler.sweep() == SweepResult()


@pytest.mark.kills(guard="delay_store.one_sweep")
def test_concurrent_sweeps_release_a_record_once() -> None:
    scheduler = Scheduler()
    item = delayed_record()
    scheduler.put(item)
    other = Scheduler()
    other.use_case = ReleaseDueRecords(
        store=scheduler.store,
        sends=InMemorySends(),
        producer=other.producer,
        clock=scheduler.clock,
        logger=Logger(),
    )

    class Meanwhile(InMemoryProducer):
        """Runs another sweep between the tested sweep's claim and its release."""

        def flush(self, timeout_s: float) -> None:
            assert other.sweep() == SweepResult(claimed_by_others=1)
            super().flush(timeout_s)

    producer = Meanwhile()
    mine = ReleaseDueRecords(
        store=scheduler.store,
        sends=InMemorySends(),
        producer=producer,
        clock=scheduler.clock,
        logger=Logger(),
    )
    assert mine.sweep(lambda: 60) == SweepResult(released=1)
    assert len(producer.produced) + len(other.producer.produced) == 1


def test_records_are_claimed_and_removed_concurrently() -> None:
    """At the end of the night many records are due, and each takes two requests to the store."""
    scheduler = Scheduler()
    together = Barrier(4)
    scheduler.store = WaitingStore(together)
    scheduler.use_case = replace(scheduler.use_case, store=scheduler.store)
    scheduler.put(*(delayed_record(id=f"record-{number}") for number in range(4)))
    assert scheduler.sweep() == SweepResult(released=4)
    assert not together.broken


def test_failed_release_is_repeated_once_its_claim_lapsed() -> None:
    scheduler = Scheduler()
    item = delayed_record()
    scheduler.put(item, delayed_record())
    scheduler.producer.fail = lambda _topic, _value: Retry("down")
    assert scheduler.sweep() == SweepResult(failed=2)
    assert len(scheduler.store.items) == 2
    scheduler.producer.fail = lambda _topic, _value: None
    assert scheduler.sweep() == SweepResult(claimed_by_others=2)
    scheduler.clock.advance(CLAIM_S)
    assert scheduler.sweep() == SweepResult(released=2)
    assert item.id in scheduler.released()


def test_a_sweep_stops_before_its_time_ends() -> None:
    scheduler = Scheduler()
    scheduler.put(delayed_record())
    assert scheduler.sweep(seconds=19) == SweepResult(complete=False)
    assert scheduler.released() == []


@pytest.mark.guarantee("delay_store.critical_first")
@pytest.mark.kills(guard="delay_store.critical_first")
def test_twenty_thousand_held_items_delay_no_critical_one() -> None:
    """A sweep without time for all items releases critical items first, even those of a later minute."""
    scheduler = Scheduler()
    for number in range(20_000):
        scheduler.put(delayed_record(NOW + number // 100, id=str(number)))
    scheduler.put(delayed_record(NOW + 3 * 60_000, id="password", topic="recheck.critical"))
    scheduler.clock.advance(180)
    calls = iter(range(60, 0, -1))
    swept = scheduler.use_case.sweep(lambda: next(calls))
    assert scheduler.released()[0] == "password"
    assert swept == SweepResult(released=1 + 40 * 50, complete=False)


def test_unreadable_bulk_delays_no_critical_record() -> None:
    scheduler = Scheduler()

    class Throttled(InMemoryDelayStore):
        def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableItem]:
            if not critical:
                raise Retry("throttled")
            return super().due(now_ms, critical=critical)

    store = Throttled()
    store.put(delayed_record(id="password", topic="recheck.critical"), NOW)
    with pytest.raises(Retry):
        replace(scheduler.use_case, store=store).sweep(lambda: 60)
    assert scheduler.released() == ["password"]


def test_an_unreadable_item_stops_no_other_and_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler()
    bad, good = delayed_record(id="bad"), [delayed_record(), delayed_record(topic="recheck.critical")]
    scheduler.put(bad, *good)
    scheduler.store.unreadable.add(key_of(bad))
    scheduler.use_case = replace(scheduler.use_case, logger=logs.logger("test_release_due_records"))
    metrics.taken()
    assert scheduler.sweep() == SweepResult(released=2, unreadable=1)
    assert set(scheduler.released()) == {item.id for item in good}
    counted = metrics.taken()[0]
    assert (counted["UnreadableItems"], counted["WaitingBacklog"]) == (1, 0)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line["message"] == "a stored item cannot be read"]
    assert (line["store"], tuple(line["key"].values())) == ("waiting", key_of(bad))
    assert scheduler.sweep() == SweepResult(unreadable=1)


@pytest.mark.guarantee("delay_store.unreadable_item_is_skipped")
def test_unreadable_control_delays_no_record_of_another_send() -> None:
    scheduler = Scheduler()
    bad, good = SendKey(7, "a"), SendKey(7, "b")

    class Damaged(InMemoryDelayStore):
        def controlled(self) -> Iterator[ControlledSend | UnreadableItem]:
            yield unreadable(("controlled", bad.text), "damaged")
            yield from super().controlled()

    store = Damaged()
    store.put(delayed_record(NOW + 60_000, id="resumed", send=good, delay_reason=PAUSED), NOW)
    store.put_controlled(ControlledSend(good, NOW))
    swept = replace(scheduler.use_case, store=store).sweep(lambda: 60)
    assert (scheduler.released(), swept) == (["resumed"], SweepResult(released=1, unreadable=1))


def test_unencodable_record_stops_no_other() -> None:
    scheduler = Scheduler()
    bad, good = delayed_record(id="a", headers=(("\ud800", b""),)), delayed_record(id="b")
    scheduler.put(bad, good)
    assert scheduler.sweep() == SweepResult(released=1, failed=1)
    assert scheduler.released() == [good.id]


@pytest.mark.parametrize(
    "topic", ["send.api", "send.monolith", "send.api.critical", "preference_change", "dead-letter"]
)
def test_record_cannot_wait_for_a_topic_of_sends(topic: str) -> None:
    with pytest.raises(ValueError, match="nothing is released to"):
        delayed_record(topic=topic)
    assert topic not in releasable()


def test_item_with_a_forbidden_topic_is_not_released() -> None:
    scheduler = Scheduler()
    item = delayed_record()
    object.__setattr__(item, "topic", topics.SEND_API)
    scheduler.store.items["", ""] = item
    assert scheduler.sweep().released == 0
    assert scheduler.producer.produced == []


def test_scheduler_may_write_to_each_topic_it_releases_to() -> None:
    written = {topic.name for topic in topics.chain_topics() if "scheduler" in topic.producers}
    assert releasable() & {topic.name for topic in topics.chain_topics()} <= written


def test_record_is_released_to_a_queue_with_consumers() -> None:
    """It may have waited while the environment had more broadcast queues."""
    scheduler = Scheduler()
    scheduler.put(*(delayed_record(id=lane, topic=topics.in_lane(topics.RECHECK, lane)) for lane in Lane))
    scheduler.use_case = replace(scheduler.use_case, queues=BROADCASTS[:2])
    scheduler.sweep()
    released = {(key or b"").decode(): topics.lane_of(topic) for topic, key, _, _ in scheduler.producer.produced}
    assert released == {lane: lane for lane in Lane} | {Lane.BULK_3: Lane.BULK, Lane.BULK_4: Lane.BULK_2}


def test_every_lane_can_be_released_to() -> None:
    for lane in Lane:
        assert {topics.in_lane(name, lane) for name in ("recheck", "build", "delivery")} <= releasable()


def test_jitter_follows_from_the_id_and_spreads() -> None:
    moments = [jittered(NOW, str(number), 60_000) for number in range(1_000)]
    assert moments == [jittered(NOW, str(number), 60_000) for number in range(1_000)]
    assert NOW <= min(moments) < NOW + 6_000
    assert NOW + 54_000 < max(moments) < NOW + 60_000


def test_released_record_continues_its_trace() -> None:
    scheduler = Scheduler()
    above = traces.begun_by("a send").within()
    scheduler.put(delayed_record(headers=tuple(above.headers)))
    traces.taken()
    scheduler.sweep()
    (span,) = traces.taken()
    ((_, _, _, headers),) = scheduler.producer.produced
    assert (span.parent_id, span.trace.trace_id) == (above.span_id, above.trace_id)
    assert traces.of_headers(headers) == span.trace
    assert [name for name, _ in headers].count("traceparent") == 1


def test_sweep_measures_the_backlog_and_its_age() -> None:
    scheduler = Scheduler()
    metrics.taken()
    scheduler.sweep()
    assert metrics.taken()[0] == {
        "WaitingReleased": 0,
        "WaitingNotReleased": 0,
        "WaitingBacklog": 0,
        "WaitingOldestDue": 0,
    }
    scheduler.put(delayed_record(), delayed_record())
    scheduler.producer.fail = lambda _topic, _value: Retry("down")
    scheduler.clock.advance(90)
    scheduler.sweep()
    assert metrics.taken()[0] == {
        "WaitingReleased": 0,
        "WaitingNotReleased": 2,
        "WaitingBacklog": 2,
        "WaitingOldestDue": 90,
    }


def _offline(**fields: object) -> DelayedRecord:
    """Return a delayed record that a function without a registry has encoded."""
    record = WebhookOutcome.from_avro(json.loads(read_text("examples/WebhookOutcome.three_results.json")))
    topic = "webhook_outcome"
    value = Codec(BundledSchema(WebhookOutcome)).encode(topic, "WebhookOutcome", record.to_avro())
    item = delayed_record(topic=topic, value=value, headers=(schema_header(WebhookOutcome),))
    return replace(item, **fields)  # type: ignore[arg-type]


def test_a_record_encoded_without_a_registry_gets_its_schema() -> None:
    chain, scheduler = Chain(), Scheduler()
    scheduler.put(_offline(record_key="17"))
    scheduler.clock.advance(60)
    assert replace(scheduler.use_case, codec=chain.codec).sweep(lambda: 60).released == 1
    ((_, key, value, _),) = scheduler.producer.produced
    assert key == b"17"
    assert chain.codec.decode("WebhookOutcome", value)["attempt"] == [1, 1, 8]


@pytest.mark.kills(guard="registry.schema_of_released_record")
def test_a_record_of_another_version_waits_and_delays_no_other() -> None:
    chain, scheduler = Chain(), Scheduler()
    scheduler.put(_offline(headers=(("masscomm.schema", b"another"),)), delayed_record(topic="delivery"))
    scheduler.clock.advance(60)
    result = replace(scheduler.use_case, codec=chain.codec).sweep(lambda: 60)
    assert (result.released, result.failed) == (1, 1)
    assert [topic for topic, *_ in scheduler.producer.produced] == ["delivery"]


def test_unreleased_record_is_logged_with_its_own_ids(capsys: pytest.CaptureFixture[str]) -> None:
    chain, scheduler = Chain(), Scheduler()
    record = delivery([1], record_id="its own", send_id="a send", club_id=3)
    value = chain.codec.encode("delivery", "DeliveryRequested", record.to_avro())
    scheduler.put(replace(delayed_record(topic="delivery"), value=value), delayed_record(topic="delivery"))
    scheduler.producer.fail = lambda _topic, _value: Retry("down")
    replace(scheduler.use_case, codec=chain.codec, logger=logs.logger("test_release_due_records")).sweep(lambda: 60)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    failed = [line for line in lines if line["message"] == "not released"]
    assert sorted((line.get("send_id"), line.get("club_id")) for line in failed if "send_id" in line) == [("a send", 3)]
    assert len(failed) == 2
    assert all("record_id" in line for line in failed)
