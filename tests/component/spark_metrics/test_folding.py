"""Rows of several lanes become one row on a real Postgres, without a change of any sum."""

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import sql

from local.devstack.provision import SCHEMAS, apply_sql
from masscomm.domain.grains import Grain
from spark_metrics.common.database import STREAM, connect
from spark_metrics.counting.folding import COUNTS, WEBHOOK_COUNTS, Folder, LaneTable
from spark_metrics.counting.lane_merge import merge_lane
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.sql import read_sql
from tests.component.spark_metrics.test_sink import AT_MS, QUERY, OneTopic, Record, a_task, count, rows_of

GRACE = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)
BUCKET = datetime.fromtimestamp(AT_MS // 60_000 * 60, UTC)
# Their records are in the lanes 0, 1 and 2 of three.
SENDS = {next(rows_of(Record(0, send_id=name), 3)).lane: name for name in (f"send {n}" for n in range(20))}


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    with closing(PostgresSink(database)) as sink:
        sink.take_over()
        yield sink


def complete(sink: PostgresSink, folder: Folder, watermark: datetime) -> None:
    folder.fold(sink.connected(), watermark)
    names = {"stream": STREAM, "ms": round(watermark.timestamp() * 1000), "grace_ms": GRACE.total_seconds() * 1000}
    sink.connected().execute(read_sql("watermark"), names)


def rows(sink: PostgresSink, table: str = "counts_minute") -> list[tuple[int, int]]:
    """Return lane and count of each row."""
    text = sql.SQL("select lane, count_total from {} order by bucket, club_id, lane").format(sql.Identifier(table))
    return sink.connected().execute(text).fetchall()


@pytest.mark.kills(guard="metrics.row_of_a_lane")
def test_lanes_wait_for_no_other_lane(sink: PostgresSink) -> None:
    plan = sink.begin(3)
    with a_task(sink) as first, a_task(sink) as second, first.transaction():
        merge_lane(first, plan, 0, rows_of(Record(0, number=1, send_id=SENDS[0]), 3))
        second.execute("set lock_timeout = '5s'")
        merge_lane(second, plan, 1, rows_of(Record(0, number=2, send_id=SENDS[1], partition=1), 3))
    assert rows(sink) == [(0, 3), (1, 3)]


@pytest.mark.kills(guard="metrics.folded_before_the_watermark")
def test_the_watermark_folds_complete_buckets(sink: PostgresSink) -> None:
    """The topic is consumed, so that the watermark is the present time."""
    for partition, (_, name) in enumerate(sorted(SENDS.items())):
        record = Record(0, number=partition, send_id=name, partition=partition)
        count(sink, record, Record(1, number=10 + partition, problem=Problem.UNDECODABLE, partition=partition))
    with OneTopic(sink).status() as status:
        status.store(QUERY)
    assert [rows(sink, grain.table) for grain in Grain] == [[(-1, 9)]] * 3


def test_complete_buckets_have_one_row(sink: PostgresSink) -> None:
    folder = Folder(COUNTS, grace=GRACE)
    count(sink, *[Record(n, number=n, send_id=name) for n, name in SENDS.items()])
    complete(sink, folder, BUCKET + MINUTE + GRACE - timedelta(milliseconds=1))
    assert rows(sink) == [(0, 3), (1, 3), (2, 3)]
    complete(sink, folder, BUCKET + MINUTE + GRACE)
    assert rows(sink) == [(-1, 9)]
    assert rows(sink, "counts_hour") == [(0, 3), (1, 3), (2, 3)]


def test_lanes_add_late_records_to_the_one_row(sink: PostgresSink) -> None:
    complete(sink, Folder(COUNTS, grace=GRACE), BUCKET + MINUTE + GRACE)
    count(sink, *[Record(n, number=n, send_id=name) for n, name in SENDS.items()])
    assert rows(sink) == [(-1, 9)]
    revised = sink.connected().execute("select lane, late_total from revised_minutes order by 1").fetchall()
    assert revised == [(0, 3), (1, 3), (2, 3)]


def test_a_row_of_an_earlier_watermark_is_folded(sink: PostgresSink) -> None:
    """A lane that begins before a watermark may add to a bucket after it is folded."""
    folder = Folder(COUNTS, grace=GRACE)
    count(sink, Record(0, number=0, send_id=SENDS[0]))
    plan = sink.begin(3)
    with a_task(sink) as task, task.transaction():
        merge_lane(task, plan, 1, rows_of(Record(1, number=1, send_id=SENDS[1]), 3))
        complete(sink, folder, BUCKET + MINUTE + GRACE)
    assert rows(sink) == [(0, 3), (1, 3)]
    complete(sink, folder, BUCKET + timedelta(hours=1) + GRACE)
    assert rows(sink) == [(-1, 6)]


def test_a_start_folds_the_buckets_of_a_killed_driver(sink: PostgresSink) -> None:
    count(sink, *[Record(n, number=n, send_id=name) for n, name in SENDS.items()])
    # This driver folds, and is killed before it stores the watermark.
    Folder(COUNTS[1:], grace=GRACE).fold(sink.connected(), BUCKET + MINUTE + GRACE)
    complete(sink, Folder(COUNTS, grace=GRACE), BUCKET + 2 * MINUTE + GRACE)
    assert rows(sink) == [(-1, 9)]


def test_sums_beyond_bigint_are_not_folded(sink: PostgresSink) -> None:
    huge: list[tuple[str, str, str | None, int]] = [("push", "sent", None, 2**62)]
    for n, name in sorted(SENDS.items()):
        count(sink, Record(n, number=n, send_id=name, source="delivery", topic="delivery", counts=huge))
    complete(sink, Folder(COUNTS, grace=GRACE), BUCKET + MINUTE + GRACE)
    assert [total for _, total in rows(sink)] == [2**62] * 3


@pytest.mark.parametrize("table", WEBHOOK_COUNTS, ids=lambda table: table.name)
def test_counts_of_webhooks_are_folded(sink: PostgresSink, table: LaneTable) -> None:
    insert = sql.SQL(
        "insert into {} (bucket, endpoint_id, club_id, type, status, count_total, duration_ms_total, lane)"
        " values (%s, 'e', 7, 'news', 'delivered', %s, %s, %s)"
    ).format(sql.Identifier(table.name))
    for lane, total in ((-1, 1), (0, 2), (4, 3)):
        sink.connected().execute(insert, [BUCKET, total, total * 10, lane])
    table.fold(sink.connected(), None, BUCKET + timedelta(days=1))
    text = sql.SQL("select lane, count_total, duration_ms_total from {}").format(sql.Identifier(table.name))
    assert sink.connected().execute(text).fetchall() == [(-1, 6, 60)]


@pytest.mark.parametrize("seed", range(3))
def test_running_lanes_and_folding_count_each_record_once(sink: PostgresSink, database: str, seed: int) -> None:
    """Four drivers' lanes add records of any minute, killed lanes among them, while two connections fold."""
    rng = random.Random(seed)  # noqa: S311
    records = [
        Record(n, number=n, send_id=f"send {n % 50}", club_id=n % 3, at_ms=AT_MS + rng.randrange(4) * 60_000)
        for n in range(400)
    ]
    lanes = 4
    plan = sink.begin(lanes)

    def merge(lane: int) -> Counter[tuple[int, int]]:
        chance = random.Random(seed * 10 + lane)  # noqa: S311
        of_lane = [record for record in records if next(rows_of(record, lanes)).lane == lane]
        counted: Counter[tuple[int, int]] = Counter()
        with a_task(sink) as connection:
            while of_lane:
                some, of_lane = of_lane[:7], of_lane[7:]
                with connection.transaction(force_rollback=chance.random() < 0.2) as transaction:
                    merge_lane(connection, plan, lane, [row for record in some for row in rows_of(record, lanes)])
                if not transaction.force_rollback:
                    counted.update({(r.at_ms // 60_000, r.club_id): 0 for r in some})
                    for record in some:
                        counted[record.at_ms // 60_000, record.club_id] += 3
        return counted

    def fold(step: int) -> None:
        with closing(PostgresSink(database)) as other:
            folder = Folder(COUNTS, grace=GRACE)
            for n in range(0, 60, step):
                complete(other, folder, BUCKET + n * timedelta(seconds=5) + GRACE)

    with ThreadPoolExecutor() as pool:
        folding = [pool.submit(fold, step) for step in (1, 2)]
        expected: Counter[tuple[int, int]] = Counter()
        for counted in pool.map(merge, range(lanes)):
            expected.update(counted)
        for each in folding:
            each.result()
    found = sink.connected().execute(
        "select extract(epoch from bucket)::bigint / 60, club_id, sum(count_total) from counts_minute group by 1, 2"
    )
    assert {(minute, club): total for minute, club, total in found} == +expected
    Folder(COUNTS, grace=GRACE).fold(sink.connected(), BUCKET + timedelta(days=2))
    assert {lane for lane, _ in rows(sink)} == {-1}


def test_folding_waits_for_no_lane(sink: PostgresSink, database: str) -> None:
    count(sink, *[Record(n, number=n, send_id=name) for n, name in SENDS.items()])
    with connect(database, "a lane") as lane, lane.transaction():
        lane.execute("select from counts_minute where lane = 1 for update")
        sink.connected().execute("set lock_timeout = '5s'")
        complete(sink, Folder(COUNTS, grace=GRACE), BUCKET + MINUTE + GRACE)
    assert rows(sink) == [(-1, 6), (1, 3)]


def test_tables_of_a_version_without_lanes_get_them(sink: PostgresSink, database: str) -> None:
    """Those of 0.1.0; their rows are those of all lanes, and the changes of sends are found."""
    connection = sink.connected()
    for table in (*COUNTS, *WEBHOOK_COUNTS):
        key = sql.SQL(", ").join(map(sql.Identifier, table.key))
        earlier = sql.SQL("alter table {} drop column lane, add primary key ({})").format(
            sql.Identifier(table.name), key
        )
        connection.execute(earlier)
    connection.execute("alter table revised_minutes drop column lane, add primary key (minute, club_id)")
    connection.execute("drop table send_changes; alter table sends drop column changed_at, add changed_xid xid8")
    connection.execute("create index sends_changed on sends (changed_xid, send_id)")
    connection.execute("insert into sends values ('s', 7, 'news', now(), 1, 1, now(), pg_current_xact_id())")
    connection.execute("insert into counts_minute values (%s, 7, 'news', 'push', 'sent', 5)", [BUCKET])
    for _ in range(2):
        apply_sql(database, sorted((SCHEMAS / "tables").glob("*.sql")))
    assert rows(sink) == [(-1, 5)]
    count(sink, *[Record(n, number=n, send_id=name) for n, name in SENDS.items()])
    complete(sink, Folder((*COUNTS, *WEBHOOK_COUNTS), grace=GRACE), BUCKET + MINUTE + GRACE)
    assert rows(sink) == [(-1, 14)]
    found = connection.execute("select send_id from send_changes where changed_xid is not null order by 1").fetchall()
    assert found == sorted([("s",), *((name,) for name in SENDS.values())])
