"""Batches that Lambda has discarded in on-demand mode are returned: none of their records is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions.scheduler.reschedule_records import CRASHED
from functions.scheduler.return_discarded_batches import ReturnDiscardedBatches
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.event_source.on_failure import Condition, discarded_batch
from local.emulators.event_source.record import Partition, SourceRecord
from local.emulators.local import REGION
from masscomm.domain.records import AvroRecord
from masscomm.domain.time_limits import SWEEP_RESERVE_S
from masscomm.errors import Retry, Stop
from masscomm.kafka import topics
from masscomm.observability import logs
from masscomm.stores.discarded_batches.in_memory import InMemoryDiscardedBatches
from masscomm.stores.discarded_batches.port import DiscardedBatches
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING, S3DiscardedBatches
from tests.support.contracts.discarded_batches import PAGE, DiscardedBatchesContract, Put
from tests.support.harness.chain import build, delivery, entry
from tests.support.harness.reschedule_records import ENVELOPE, PARTIAL, Rescheduler

RECORDS = (build([1]), delivery([2]))
BUCKET = "discarded"


class Returner(Rescheduler):
    """The scheduler with a store of discarded batches, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = InMemoryDiscardedBatches()

    def sweep(self, remaining_s: float = SWEEP_RESERVE_S) -> list[bytes]:
        """Sweep once; return the values of the on-failure records."""
        self.forget()
        use_case = ReturnDiscardedBatches(
            batches=self.batches, producer=self.producer, clock=self.clock, logger=logs.logger("scheduler")
        )
        use_case.sweep(lambda: remaining_s)
        return self.values(topics.ON_FAILURE)

    def discard(self, key: str, *records: AvroRecord) -> None:
        """Store a batch whose function crashed at each of its invocations."""
        self.batches.stored[key] = discarded_batch(
            self._source_records(records),
            condition=Condition.RETRIES_EXHAUSTED,
            invocations=11,
            last=replace(PARTIAL, function_error="Unhandled"),
            function_arn="arn:aws:lambda:us-east-1:000000000000:function:f",
            envelope=ENVELOPE,
            now=datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC),
        )

    def _source_records(self, records: Sequence[AvroRecord]) -> list[SourceRecord]:
        return [
            SourceRecord(
                partition=Partition(topic, 0),
                offset=offset,
                timestamp_ms=self.clock.now_ms(),
                value=self.codec.encode(topic, type(record).__name__, record.to_avro()),
            )
            for offset, record in enumerate(records)
            for topic in [topics.BUILD if type(record).__name__ == "BuildRequested" else topics.DELIVERY]
        ]


@pytest.mark.guarantee("on_demand.discarded_batch")
def test_each_record_of_a_discarded_batch_is_rescheduled() -> None:
    """The batch crashed its function. That concerns none of its records alone."""
    scheduler = Returner()
    scheduler.discard("batch", *RECORDS)
    values = scheduler.sweep()
    assert scheduler.batches.stored == {}
    assert scheduler.run(scheduler.use_case, *(entry(value, topic=topics.ON_FAILURE) for value in values)) == []
    delayed = list(scheduler.store.items.values())
    assert sorted(item.topic for item in delayed) == [topics.BUILD, topics.DELIVERY]
    assert {dict(item.headers)[CRASHED] for item in delayed} == {b"0"}


@pytest.mark.kills(guard="discarded_batches.acknowledged")
def test_batch_stays_until_kafka_has_its_records() -> None:
    scheduler = Returner()
    scheduler.discard("batch", *RECORDS)
    down = [Retry("Kafka is down")]
    scheduler.producer.fail = lambda _topic, _value: down.pop() if down else None
    assert len(scheduler.sweep()) == 1
    assert list(scheduler.batches.stored) == ["batch"]
    assert len(scheduler.sweep()) == 2
    assert scheduler.batches.stored == {}


@pytest.mark.kills(guard="discarded_batches.unreadable")
@pytest.mark.parametrize(
    "stored", [b"", b"{}", b"[]", b'{"payload": null}', b'{"payload": "{}"}', b'{"payload": {"records": {}}}']
)
def test_unreadable_object_stays_and_delays_no_batch(stored: bytes) -> None:
    scheduler = Returner()
    scheduler.batches.stored["a"] = stored
    scheduler.discard("b", *RECORDS)
    assert len(scheduler.sweep()) == 2
    assert scheduler.batches.stored == {"a": stored}


def test_batch_is_returned_by_a_later_sweep_without_time() -> None:
    scheduler = Returner()
    scheduler.discard("batch", *RECORDS)
    assert scheduler.sweep(SWEEP_RESERVE_S - 1) == []
    assert len(scheduler.sweep()) == 2


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of S3 with an empty bucket."""
    for name, value in AWS_CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("s3", region_name=REGION)
        client.create_bucket(Bucket=BUCKET)
        yield client


class TestInMemoryDiscardedBatches(DiscardedBatchesContract):
    @pytest.fixture
    def stored(self) -> tuple[DiscardedBatches, Put]:
        batches = InMemoryDiscardedBatches()
        return batches, batches.stored.__setitem__


class TestMotoDiscardedBatches(DiscardedBatchesContract):
    @pytest.fixture
    def stored(self, s3: Any) -> tuple[DiscardedBatches, Put]:
        batches = S3DiscardedBatches(s3, BUCKET, page=PAGE)
        return batches, lambda key, body: s3.put_object(Bucket=BUCKET, Key=key, Body=body)


def test_function_without_a_bucket_has_no_discarded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv(BUCKET_SETTING, BUCKET)
    batches = S3DiscardedBatches.from_environment()
    assert batches is not None
    assert batches.name == BUCKET
    monkeypatch.delenv(BUCKET_SETTING)
    assert S3DiscardedBatches.from_environment() is None


def test_missing_bucket_is_a_wrong_setting(s3: Any) -> None:
    batches = S3DiscardedBatches(s3, "missing")
    with pytest.raises(Stop, match="NoSuchBucket"):
        list(batches.keys())
    for call in (batches.read, batches.remove):
        with pytest.raises(Stop, match="NoSuchBucket"):
            call("key")


@pytest.mark.parametrize(("error", "raised"), [("AccessDenied", Stop), ("SlowDown", Retry)])
def test_error_of_s3_is_a_stop_or_a_retry(
    s3: Any, monkeypatch: pytest.MonkeyPatch, error: str, raised: type[Exception]
) -> None:
    monkeypatch.setattr(s3, "list_objects_v2", partial(_fail, s3, error))
    with pytest.raises(raised, match=error):
        list(S3DiscardedBatches(s3, BUCKET).keys())


def _fail(client: Any, code: str, **_: Any) -> None:
    raise client.exceptions.ClientError({"Error": {"Code": code}}, "ListObjectsV2")
