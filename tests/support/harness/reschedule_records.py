"""The scheduler's use case for on-failure records, with in-memory adapters."""

from datetime import UTC, datetime

from functions.scheduler.reschedule_records import RescheduleRecords
from local.emulators.event_source.on_failure import Condition, LastResponse, failure_record
from local.emulators.event_source.record import EventEnvelope, Partition, SourceRecord
from masscomm.domain.records import AvroRecord
from masscomm.kafka import topics
from masscomm.kafka.source_records import InMemorySourceRecords
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger, LedgerTable
from tests.support.harness.chain import Chain, entry

PARTIAL = LastResponse(request_id="r", status_code=200, executed_version="$LATEST", function_error=None)
ENVELOPE = EventEnvelope(event_source_arn="arn:aws:kafka", bootstrap_servers="broker:9092")
Headers = tuple[tuple[str, bytes], ...]


class Rescheduler(Chain):
    def __init__(self) -> None:
        super().__init__()
        self.store = InMemoryDelayStore()
        self.source = InMemorySourceRecords()
        self.ledger = InMemoryDeliveryLedger(clock=self.clock, table=LedgerTable())
        self.use_case = RescheduleRecords(store=self.store, source=self.source, ledger=self.ledger, clock=self.clock)

    def reschedule(
        self,
        record: AvroRecord | bytes,
        topic: str,
        *,
        last_invocation: LastResponse | None = PARTIAL,
        headers: Headers = (),
        on_failure_headers: Headers = (),
        with_payload: bool = True,
        after_s: float = 0.0,
        invocations: int = 11,
    ) -> list[int]:
        """Consume an on-failure record of partition 3, offset 41, which failed `after_s` after it was produced.

        Returns:
            The offsets to be redelivered.
        """
        value = (
            record if isinstance(record, bytes) else self.codec.encode(topic, type(record).__name__, record.to_avro())
        )
        source_record = SourceRecord(
            partition=Partition(topic, 3),
            offset=41,
            timestamp_ms=self.clock.now_ms() - round(after_s * 1000),
            key=b"k",
            value=value,
            headers=headers,
        )
        document = failure_record(
            source_record,
            condition=Condition.RETRIES_EXHAUSTED,
            invocations=invocations,
            last=last_invocation,
            function_arn="arn:aws:lambda:us-east-1:000000000000:function:f",
            envelope=ENVELOPE,
            now=datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC),
            with_payload=with_payload,
        )
        return self.run(self.use_case, entry(document, topic=topics.ON_FAILURE, headers=on_failure_headers))

    def delayed_record(self) -> DelayedRecord:
        (item,) = self.store.items.values()
        return item
