"""Views on a real Postgres: updated with each batch, and refused if their table differs."""

from collections.abc import Iterator

import psycopg
import pytest
from pyspark.sql import DataFrame

from masscomm.errors import Stop
from spark_metrics.sink import PostgresSink
from spark_metrics.staging import copy_rows
from spark_metrics.views import View, complete, kept_since

type Connection = psycopg.Connection[tuple[object, ...]]


def unused(sums: DataFrame) -> DataFrame:
    return sums


BY_CLUB = View(table="by_club", keys=("bucket", "club's"), sums=("records", "total"), transform=unused)
TABLE = (
    'create table by_club ("club\'s" text, bucket timestamptz, total bigint, records bigint,'
    ' primary key ("club\'s", bucket))'
)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    with psycopg.connect(database) as connection:
        connection.execute(TABLE)
    sink = PostgresSink(database, views=[BY_CLUB])
    sink.take_over()
    yield sink
    sink.close()


def count(sink: PostgresSink, offset: int, *rows: str) -> None:
    attempt = sink.begin()
    lines = {"staging_positions": [f"outcome\t0\t{offset}\t{offset}\t1"], "staging_views": list(rows)}
    with sink.connected().transaction():
        copy_rows(sink.connected(), attempt.number, 0, 0, lines)
    sink.merge(attempt, batch_id=offset)


def a_row(club: str, total: int) -> str:
    return f'by_club\t{{"club\'s": "{club}", "bucket": "2026-11-21T09:00:00.000Z", "records": 1, "total": {total}}}'


def test_view_sums_every_batch(sink: PostgresSink) -> None:
    count(sink, 0, a_row("a", 3), a_row("a", 4), a_row("b", 2**40), "another\t{}")
    count(sink, 1, a_row("a", 5))
    rows = sink.connected().execute('select "club\'s", records, total from by_club order by 1').fetchall()
    assert rows == [("a", 3, 12), ("b", 1, 2**40)]


@pytest.mark.parametrize(
    "change",
    [
        "drop table by_club",
        "alter table by_club drop column total",
        "alter table by_club rename column records to others",
        "alter table by_club drop constraint by_club_pkey",
        "alter table by_club alter column total type text",
    ],
)
def test_table_that_differs_from_its_view_is_a_stop(sink: PostgresSink, change: str) -> None:
    BY_CLUB.check_table(sink.connected())
    sink.connected().execute(change.encode())
    with pytest.raises(Stop, match="the table by_club differs from its view"):
        BY_CLUB.check_table(sink.connected())


def maintained(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute("select view, since = '-infinity' from stream_views order by 1").fetchall()


def test_maintained_view_has_its_start_time(sink: PostgresSink, database: str) -> None:
    assert maintained(sink.connected()) == [("by_club", True)]
    sink.connected().execute("insert into stream_offsets values ('outcome', 0, 5)")
    sink.take_over()
    assert maintained(sink.connected()) == [("by_club", True)]
    # The second driver maintains no views, so the third begins them again, on a database that has counts already.
    other = PostgresSink(database)
    other.take_over()
    other.close()
    assert maintained(sink.connected()) == []
    sink.take_over()
    assert maintained(sink.connected()) == [("by_club", False)]
    complete(sink.connected(), ["by_club"])
    assert maintained(sink.connected()) == [("by_club", True)]
    assert kept_since(sink.connected()) == {}
