import pytest

from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.source_records import InMemorySourceRecords
from tests.support.contracts.source_records import HEADERS, SourceRecordsContract, StoredRecords


class TestInMemorySourceRecords(SourceRecordsContract):
    @pytest.fixture
    def stored(self) -> StoredRecords:
        source = InMemorySourceRecords()
        stored = StoredRecords(source, "topic")
        for offset, value in enumerate(stored.values):
            source.records["topic", 0, offset] = KafkaRecord(
                topic="topic", partition=0, offset=offset, timestamp_ms=1, key=b"key", value=value, headers=HEADERS
            )
        return stored
