"""The contract of every reader of records by position: the in-memory and the real one run the same tests."""

from dataclasses import dataclass

from masscomm.kafka.source_records import SourceRecords

HEADERS = (("name", b"\xff"), ("name", b""))


@dataclass(frozen=True)
class Kept:
    """A topic of one partition that has three records, with these values and HEADERS, from offset 0 on."""

    source: SourceRecords
    topic: str
    values: tuple[bytes | None, ...] = (b"first", None, b"third")


class SourceRecordsContract:
    """Subclasses give the fixture `kept`."""

    def test_record_is_read_whole_by_its_position(self, kept: Kept) -> None:
        for offset in (1, 2, 0):
            record = kept.source.at(kept.topic, 0, offset)
            assert record is not None
            assert (record.topic, record.partition, record.offset, record.key) == (kept.topic, 0, offset, b"key")
            assert (record.value, record.headers) == (kept.values[offset], HEADERS)
            assert record.timestamp_ms > 0

    def test_absent_offset_or_partition_has_no_record(self, kept: Kept) -> None:
        assert kept.source.at(kept.topic, 0, 3) is None
        assert kept.source.at(kept.topic, 9, 0) is None
