"""Makes records for the delay store in functions without a connection to Kafka and the schema registry."""

from masscomm.domain.records import AvroRecord
from masscomm.kafka.avro import Codec
from masscomm.kafka.bundled_schema import schema_header
from masscomm.stores.delayed_records.port import DelayedRecord


def bundled_record(
    codec: Codec,
    topic: str,
    record: AvroRecord,
    *,
    id_: str,
    due_ms: int,
    delay_reason: str,
    record_key: str | None = None,
) -> DelayedRecord:
    """Return a record that names its schema by a header: the scheduler sets the id of the schema at the release.

    Args:
        codec: Encodes with the schema in the package.
        topic: The topic to which the record is produced.
        record: The record.
        id_: Its id: the same if the batch is processed again.
        due_ms: The time of its release, in milliseconds since the epoch.
        delay_reason: The reason of the delay.
        record_key: The key with which it is produced; None: its id.
    """
    return DelayedRecord(
        id=id_,
        due_ms=due_ms,
        topic=topic,
        value=codec.encode(topic, type(record).__name__, record.to_avro()),
        delay_reason=delay_reason,
        headers=(schema_header(type(record)),),
        record_key=record_key,
    )
