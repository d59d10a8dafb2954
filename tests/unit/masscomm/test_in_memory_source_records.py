"""The reader in memory, under the contract of the one that reads Kafka."""

import pytest

from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.source_records import InMemorySourceRecords
from tests.support.contracts.source_records import HEADERS, Kept, SourceRecordsContract


class TestInMemorySourceRecords(SourceRecordsContract):
    @pytest.fixture
    def kept(self) -> Kept:
        source = InMemorySourceRecords()
        kept = Kept(source, "topic")
        for offset, value in enumerate(kept.values):
            source.records["topic", 0, offset] = KafkaRecord(
                topic="topic", partition=0, offset=offset, timestamp_ms=1, key=b"key", value=value, headers=HEADERS
            )
        return kept
