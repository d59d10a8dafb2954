"""The tests that every CdcProgress (the progress of change data capture) must pass, in memory and real."""

from abc import ABC, abstractmethod
from typing import Any

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import CdcProgress, reached
from masscomm.kafka.topics import cdc_topic

STREAMING = {"lsn_proc": 77, "messageType": "MESSAGE", "lsn_commit": 77, "lsn": 77, "ts_usec": 1}
SNAPSHOT = {"last_snapshot_record": False, "lsn": 99, "txId": 1, "snapshot": "INITIAL", "snapshot_completed": False}


class Capture(ABC):
    """The change data capture of one snapshot generation, with methods that advance its producers."""

    generation: str
    progress: CdcProgress

    @abstractmethod
    def write(self, topic: str, partition: int, count: int) -> None:
        """Produce a record as Debezium does."""

    @abstractmethod
    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Commit offsets as cdc_consumer does."""

    @abstractmethod
    def store(self, generation: str, offset: dict[str, Any]) -> None:
        """Store the source offset of a generation's connector as Kafka Connect does."""

    @property
    def users(self) -> str:
        return cdc_topic("users", self.generation)


class CdcProgressContract:
    """Subclasses define the fixture `capture`."""

    def test_before_any_record_every_partition_is_at_its_beginning(self, capture: Capture) -> None:
        tables = {cdc_topic(table, capture.generation) for table in captured_tables()}
        assert capture.progress.end_offsets().keys() == tables
        assert all(offset == 0 for ends in capture.progress.end_offsets().values() for offset in ends.values())
        assert reached(capture.progress.committed_offsets(), capture.progress.end_offsets())
        assert capture.progress.acknowledged_lsn() is None

    def test_written_offsets_are_reached_once_committed(self, capture: Capture) -> None:
        capture.write(capture.users, 1, 5)
        ends = capture.progress.end_offsets()
        assert ends[capture.users][1] == 5
        assert not reached(capture.progress.committed_offsets(), ends)
        capture.commit(capture.users, 1, 4)
        assert not reached(capture.progress.committed_offsets(), ends)
        capture.commit(capture.users, 1, 5)
        assert reached(capture.progress.committed_offsets(), ends)
        capture.write(capture.users, 2, 1)
        assert reached(capture.progress.committed_offsets(), ends), "what was written later does not matter"
        assert not reached(capture.progress.committed_offsets(), capture.progress.end_offsets())

    def test_acknowledged_lsn_is_this_connectors_stored_offset(self, capture: Capture) -> None:
        capture.store(capture.generation, SNAPSHOT)
        assert capture.progress.acknowledged_lsn() is None
        capture.store("another", STREAMING)
        assert capture.progress.acknowledged_lsn() is None
        capture.store(capture.generation, STREAMING)
        assert capture.progress.acknowledged_lsn() == 77
        capture.store(capture.generation, {})  # Connect stores an empty offset with a snapshot notification.
        assert capture.progress.acknowledged_lsn() == 77
        capture.store(capture.generation, STREAMING | {"lsn": 80})
        assert capture.progress.acknowledged_lsn() == 80
        assert capture.progress.acknowledged_lsn() == 80
