"""The tests that every reader of records by position must pass, in memory and real."""

from dataclasses import dataclass

from masscomm.kafka.source_records import SourceRecords

HEADERS = (("name", b"\xff"), ("name", b""))


@dataclass(frozen=True)
class StoredRecords:
    """A topic with one partition and three records that have these values and HEADERS, from offset 0 on."""

    source: SourceRecords
    topic: str
    values: tuple[bytes | None, ...] = (b"first", None, b"third")


class SourceRecordsContract:
    """Subclasses define the fixture `stored`."""

    def test_record_is_read_whole_by_its_position(self, stored: StoredRecords) -> None:
        for offset in (1, 2, 0):
            record = stored.source.at(stored.topic, 0, offset)
            assert record is not None
            assert (record.topic, record.partition, record.offset, record.key) == (stored.topic, 0, offset, b"key")
            assert (record.value, record.headers) == (stored.values[offset], HEADERS)
            assert record.timestamp_ms > 0

    def test_absent_offset_or_partition_has_no_record(self, stored: StoredRecords) -> None:
        assert stored.source.at(stored.topic, 0, 3) is None
        assert stored.source.at(stored.topic, 9, 0) is None
