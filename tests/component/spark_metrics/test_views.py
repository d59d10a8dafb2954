"""Views on a real Postgres: updated with each batch, and refused if their table differs."""

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from masscomm.errors import Stop
from spark_metrics.counting.lane_merge import LaneRow, run_lane
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import View, complete, kept_since
from tests.support.spark.club_days import CLUB_DAYS, TABLE
from tests.support.spark.metrics_job import wait_until

type Connection = psycopg.Connection[tuple[object, ...]]


BY_CLUB = View(
    table="by_club",
    dimensions={"club's": "coalesce(reason, '') || type"},
    measures={"total": "count_total", "records": "records"},
    where="measure = 'sent' and type not like '%x%'",
)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    with psycopg.connect(database) as connection:
        BY_CLUB.prepare_table(connection)
    sink = PostgresSink(database, views=[BY_CLUB])
    sink.take_over()
    yield sink
    sink.close()


BY_TEMPLATE = View(
    table="by_template",
    dimensions={"template": "coalesce(template, type)", "locale": "coalesce(locale, '')"},
    measures={"total": "count_total"},
    labels=("template", "locale"),
    where="measure = 'sent'",
    step_s=86_400,
)


def count(sink: PostgresSink, offset: int, *counted: tuple[str, int], labels: str | None = None) -> None:
    plan = sink.begin(1)
    rows = [
        LaneRow(
            lane=0,
            hash=0,
            topic="outcome",
            partition=0,
            kafka_offset=offset + number,
            record_id=uuid4().bytes,
            send_id="a send",
            club_id=1,
            type=category,
            at_ms=1_700_000_000_000,
            several=[["push", "push"], ["sent", "failed"], [None, "x"], [str(total), "1"]],
            labels=labels,
        )
        for number, (category, total) in enumerate(counted)
    ]
    sink.complete(list(run_lane(plan, rows)), batch_id=offset)


def test_view_sums_every_batch(sink: PostgresSink) -> None:
    count(sink, 0, ("a", 3), ("a", 4), ("b", 2**40), ("x", 9))
    count(sink, 10, ("a", 5))
    rows = sink.connected().execute('select "club\'s", records, total from by_club order by 1').fetchall()
    assert rows == [("a", 3, 12), ("b", 1, 2**40)]


def test_view_by_labels_sums_each_label(database: str) -> None:
    with psycopg.connect(database) as connection:
        BY_TEMPLATE.prepare_table(connection)
    sink = PostgresSink(database, views=[BY_TEMPLATE])
    sink.take_over()
    count(sink, 0, ("a", 1), ("b", 2))
    count(sink, 10, ("a", 3), ("b", 4), labels=json.dumps({"template": 'x"\\\t\n', "locale": "de"}))
    count(sink, 20, ("a", 5), labels=json.dumps({"locale": "de"}))
    rows = sink.connected().execute("select template, locale, total from by_template order by total").fetchall()
    assert rows == [("a", "", 1), ("b", "", 2), ("a", "de", 5), ('x"\\\t\n', "de", 7)]
    sink.close()


def test_lanes_update_views_in_the_order_of_their_keys(sink: PostgresSink, database: str) -> None:
    """So no two lanes wait for each other. A lane that waits for a row holds the rows before it, and none behind it."""
    with psycopg.connect(database) as connection:
        # So the plan groups by hashes, and its rows come in any order unless they are sorted.
        connection.execute(f"alter database {connection.info.dbname} set enable_sort = off".encode())
    types = [f"{number:02}" for number in random.Random(3).sample(range(100), 100)]  # noqa: S311
    count(sink, 0, *[(each, 1) for each in types])
    with ThreadPoolExecutor() as pool, psycopg.connect(database) as holding:
        holding.execute("select from by_club where \"club's\" = '50' for update")
        merging = pool.submit(count, sink, 200, *[(each, 1) for each in reversed(types)])
        waits = "select from pg_locks where not granted"
        wait_until("the lane to wait", lambda: holding.execute(waits).fetchone() is not None or None)
        with psycopg.connect(database) as other:
            free = other.execute('select "club\'s" from by_club for update skip locked').fetchall()
        assert sorted(each for (each,) in free) == [f"{number}" for number in range(51, 100)]
        holding.rollback()
        merging.result()


@pytest.mark.parametrize(
    "change",
    [
        "alter table by_club drop column total",
        "alter table by_club rename column records to others",
        "alter table by_club drop constraint by_club_pkey",
        "alter table by_club alter column total type text",
    ],
)
def test_table_that_differs_from_its_view_is_a_stop(sink: PostgresSink, change: str) -> None:
    BY_CLUB.prepare_table(sink.connected())
    sink.connected().execute(change.encode())
    with pytest.raises(Stop, match="the table by_club differs from its view"):
        BY_CLUB.prepare_table(sink.connected())


@pytest.mark.parametrize("wrong", [{"where": "no_such_column > 0"}, {"measures": {"total": "sum(count_total)"}}])
def test_view_with_a_wrong_expression_is_a_stop(database: str, wrong: dict[str, Any]) -> None:
    with psycopg.connect(database) as connection, pytest.raises(Stop, match="the table by_club differs from its view"):
        replace(BY_CLUB, **wrong).prepare_table(connection)


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


def test_table_of_a_version_without_lanes_gets_them(sink: PostgresSink) -> None:
    connection = sink.connected()
    connection.execute(TABLE)
    connection.execute("insert into club_days values ('2026-11-21', 7, 5)")
    for _ in range(2):
        CLUB_DAYS.prepare_table(connection)
    assert connection.execute("select lane, count_total from club_days").fetchall() == [(-1, 5)]
