"""The job detects an archive and a database that do not belong together."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from masscomm.errors import Stop
from spark_metrics.archive_mark import check, claim
from spark_metrics.sink import PostgresSink

type Connection = psycopg.Connection[tuple[object, ...]]


@dataclass
class Folder:
    folder: str = "a folder"
    records: int = 0
    text: str | None = None

    def is_empty(self) -> bool:
        return self.records == 0

    def mark(self) -> str | None:
        return self.text

    def write_mark(self, text: str) -> None:
        self.text = text


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    sink = PostgresSink(database)
    sink.take_over()
    yield sink.connected()
    sink.close()


def counted(connection: Connection, folder: Folder | None = None) -> None:
    connection.execute("insert into stream_offsets values ('outcome', 0, 5)")
    if folder:
        folder.records = 5


def test_archive_and_database_begun_together_match(connection: Connection) -> None:
    folder = Folder()
    claim(connection, folder)
    counted(connection, folder)
    claim(connection, folder)
    check(connection, folder)


def test_driver_killed_between_the_two_marks_can_restart(
    connection: Connection,
) -> None:
    folder = Folder()
    claim(connection, folder)
    folder.text = None
    claim(connection, folder)
    assert folder.text is not None


def test_an_archive_of_another_database_is_refused(connection: Connection) -> None:
    with pytest.raises(Stop, match="archive of another database"):
        claim(connection, Folder(text="1d5cbe14-9fa3-4ae8-8c5c-0f5f8f0f2b3a"))
    with pytest.raises(Stop, match="archive of another database"):
        claim(connection, Folder(records=1))


def test_an_archive_that_begins_after_its_database_is_refused(
    connection: Connection,
) -> None:
    counted(connection)
    with pytest.raises(Stop, match="has counted records that a folder does not hold"):
        claim(connection, Folder())
    with pytest.raises(Stop, match="not archived"):
        check(connection, Folder())


def test_lost_or_replaced_archive_is_refused(connection: Connection) -> None:
    folder = Folder()
    claim(connection, folder)
    counted(connection, folder)
    with pytest.raises(Stop, match="holds no archive"):
        claim(connection, Folder())
    folder.text = "1d5cbe14-9fa3-4ae8-8c5c-0f5f8f0f2b3a"
    with pytest.raises(Stop, match="is another archive"):
        claim(connection, folder)


def test_archived_database_without_an_archive_is_refused(connection: Connection) -> None:
    claim(connection, None)
    claim(connection, Folder())
    with pytest.raises(Stop, match="SPARK_ARCHIVE_DIR is not set"):
        claim(connection, None)
