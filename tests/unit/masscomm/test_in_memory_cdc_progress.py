from typing import Any

import pytest

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress, lsn_of_source_offset
from masscomm.kafka.topics import cdc_topic
from tests.support.contracts.cdc_progress import Capture, CdcProgressContract


class InMemoryCapture(Capture):
    def __init__(self) -> None:
        self.generation = "g1"
        self.progress: InMemoryCdcProgress = InMemoryCdcProgress()
        for table in captured_tables():
            self.progress.ends[cdc_topic(table, "g1")] = dict.fromkeys(range(4), 0)

    def write(self, topic: str, partition: int, count: int) -> None:
        self.progress.ends[topic][partition] += count

    def commit(self, topic: str, partition: int, offset: int) -> None:
        self.progress.committed.setdefault(topic, {})[partition] = offset

    def store(self, generation: str, offset: dict[str, Any]) -> None:
        if generation == self.generation:
            self.progress.lsn = lsn_of_source_offset(offset) or self.progress.lsn


class TestInMemoryCdcProgress(CdcProgressContract):
    @pytest.fixture
    def capture(self) -> Capture:
        return InMemoryCapture()
