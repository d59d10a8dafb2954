"""Postgres and the store in memory return the same results."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from local.devstack.config import StackConfig
from masscomm.domain.grains import REASONS_TABLE, Grain
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount, StoredLatency
from masscomm.stores.metrics.port import (
    Bounds,
    ChannelTotals,
    Count,
    Dimension,
    LatencyQuery,
    Log,
    LogKey,
    LogQuery,
    LogRow,
    MetricsQuery,
    MetricsStore,
    Order,
    RecipientKey,
    RecipientQuery,
    RecipientRow,
    Recipients,
    SendListQuery,
    SendTotals,
    StreamPosition,
    TooMuch,
    Trend,
    Trends,
)
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool
from tests.support.servers.metrics_database import metrics_database

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
BOUNDS = Bounds(read=6, filled=8, latencies=3)
MINUTE = timedelta(minutes=1)
WATERMARK = NOON + timedelta(seconds=90, milliseconds=250)
STORED = [
    StoredCount(
        granularity=granularity,
        bucket=bucket,
        club_id=club_id,
        type=category,
        channel=channel,
        measure=measure,
        count_total=count,
    )
    for granularity, bucket, club_id, category, channel, measure, count in [
        (Grain.MINUTE, NOON, 1, "news", "push", "sent", 3),
        (Grain.MINUTE, NOON, 1, "news", "email", "sent", 4),
        (Grain.MINUTE, NOON, 2, "O'Brien; --", "push", "sent", 5),
        (Grain.MINUTE, NOON, -(2**63), "news", "push", "requested", 2**40),
        (Grain.MINUTE, NOON + timedelta(minutes=1), 1, "News", "push", "failed", 6),
        (Grain.MINUTE, NOON + timedelta(minutes=2), 1, "news", "push", "sent", 7),
        (Grain.MINUTE, NOON + timedelta(minutes=3), 1, "news", "push", "sent", 8),
        (Grain.HOUR, NOON, 1, "news", "push", "sent", 10),
        (Grain.DAY, NOON.replace(hour=0), 1, "news", "push", "sent", 10),
    ]
]
LATENCIES = [
    StoredLatency(
        granularity=granularity,
        bucket=bucket,
        type=category,
        channel=channel,
        measure=measure,
        bin=number,
        count_total=count,
    )
    for granularity, bucket, category, channel, measure, number, count in [
        (Grain.MINUTE, NOON, "news", "push", "sent", 70, 3),
        (Grain.MINUTE, NOON, "news", "push", "sent", 2, 2**40),
        (Grain.MINUTE, NOON, "News", "push", "sent", 70, 1),
        (Grain.MINUTE, NOON, "news", "email", "delivered", 0, 5),
        (Grain.MINUTE, NOON + MINUTE, "news", "push", "sent", 70, 7),
        (Grain.HOUR, NOON, "news", "push", "sent", 70, 10),
        (Grain.HOUR, NOON + timedelta(hours=1), "news", "push", "sent", 70, 20),
        (Grain.HOUR, NOON + timedelta(hours=12), "news", "push", "sent", 70, 40),
    ]
]
BY_REASON = [
    StoredCount(
        granularity=Grain.HOUR,
        bucket=NOON + timedelta(hours=hours),
        club_id=1,
        type="news",
        channel="push",
        measure=measure,
        count_total=count,
        reason=reason,
    )
    for hours, measure, reason, count in [
        (0, "suppressed", "opted_out", 7),
        (0, "suppressed", "no_device", 2),
        (0, "failed", "no_template", 1),
        (1, "suppressed", "opted_out", 3),
    ]
]
GRACE = timedelta(seconds=30)
REVISED = [
    (NOON, 1, NOON + timedelta(hours=1)),
    (NOON, 2, NOON + timedelta(hours=3)),
    (NOON + MINUTE, 1, NOON + timedelta(hours=2)),
    (NOON + timedelta(days=1), 1, NOON + timedelta(days=2)),
]
KEPT_SINCE = {Grain.MINUTE.table: NOON - timedelta(days=90), "sends": NOON - timedelta(days=400)}
BEGUN = {Grain.HOUR.latency_table: NOON, REASONS_TABLE: NOON}
SEND = SendTotals(
    send_id="s",
    club_id=7,
    type="news",
    requested_at=NOON,
    chunk_count=2,
    chunks=1,
    channels={
        "email": ChannelTotals(requested=5),
        "push": ChannelTotals(10, 1, 6, {"sent": {"": 4}, "suppressed": {"no_device": 1, "opted_out": 2}}),
    },
    watermark=WATERMARK,
)
STATES = {("email", 0): b"\x01\x02", ("push", 1): b"\x03\x04"}


def fill(url: str) -> None:
    with psycopg.connect(url) as connection:
        for row in STORED:
            connection.execute(
                f"insert into counts_{row.granularity} values (%s, %s, %s, %s, %s, %s)".encode(),  # noqa: S608
                [row.bucket, row.club_id, row.type, row.channel, row.measure, row.count_total],
            )
        for row in BY_REASON:
            of_lanes = ((-1, row.count_total - 1), (4, 1)) if row.count_total == 7 else ((-1, row.count_total),)
            for lane, count in of_lanes:
                connection.execute(
                    "insert into reasons_hour values (%s, %s, %s, %s, %s, %s, %s, %s)",
                    [row.bucket, row.club_id, row.type, row.channel, row.measure, row.reason, lane, count],
                )
        for each in LATENCIES:
            # Each lane has rows of its own until the bucket is complete.
            for lane, count in ((-1, each.count_total - 1), (1, 1)) if each.bin == 2 else ((-1, each.count_total),):
                connection.execute(
                    f"insert into {each.granularity.latency_table} values (%s, %s, %s, %s, %s, %s, %s)".encode(),  # noqa: S608
                    [each.bucket, each.type, each.channel, each.measure, each.bin, lane, count],
                )
        for view in BEGUN:
            connection.execute("insert into stream_views values (%s, %s, '-infinity')", [view, NOON])
        connection.execute("insert into sends values ('s', 7, 'news', %s, 2, 1)", [NOON])
        for channel, totals in SEND.channels.items():
            values = [channel, totals.requested, totals.duplicates, totals.queued]
            connection.execute("insert into send_channels values ('s', %s, %s, %s, %s)", values)
            for status, reasons in totals.by_status.items():
                for reason, count in reasons.items():
                    connection.execute(
                        "insert into send_totals values ('s', %s, %s, %s, %s)", [channel, status, reason, count]
                    )
        for (channel, block), codes in STATES.items():
            connection.execute("insert into send_states values ('s', 0, %s, %s, %s)", [channel, block, codes])
        connection.execute("insert into send_states values ('s', 1, 'push', 0, 'x'), ('r', 0, 'push', 0, 'x')")
        connection.execute(
            "insert into stream_status (stream, epoch, batch_id, finished_at) values ('metrics', 1, 7, %s)", [NOON]
        )
        connection.execute("insert into stream_watermark values ('metrics', %s, now(), 30000)", [WATERMARK])
        for minute, club_id, revised_at in REVISED:
            connection.execute("insert into revised_minutes values (%s, %s, %s, 1, 1)", [minute, club_id, revised_at])
        for name, moment in KEPT_SINCE.items():
            connection.execute("insert into stream_retention values (%s, %s)", [name, moment])


@pytest.fixture(scope="module")
def in_postgres(postgres: StackConfig) -> Iterator[MetricsStore]:
    with metrics_database(postgres) as url:
        fill(url)
        pool = connection_pool(url)
        yield PostgresMetricsStore(pool, BOUNDS)
        pool.close()


@pytest.fixture(params=["postgres", "memory"])
def store(request: pytest.FixtureRequest) -> MetricsStore:
    if request.param == "memory":
        return InMemoryMetricsStore(
            [*STORED, *BY_REASON],
            {"s": replace(SEND, states=STATES)},
            WATERMARK,
            BOUNDS,
            7,
            NOON,
            grace=GRACE,
            revised_minutes=REVISED,
            kept_since=KEPT_SINCE | BEGUN,
            stored_latencies=LATENCIES,
        )
    found: MetricsStore = request.getfixturevalue("in_postgres")
    return found


type Changed = Callable[..., MetricsQuery]


def a_query(**changes: object) -> MetricsQuery:
    values: dict[str, object] = {
        "granularity": Grain.MINUTE,
        "start": NOON,
        "end": NOON + timedelta(minutes=2),
    }
    return MetricsQuery(**(values | changes))  # type: ignore[arg-type]


def test_the_range_is_half_open_and_rows_are_in_order(store: MetricsStore) -> None:
    found = store.counts(a_query())
    assert [(row.bucket, row.values, row.count_total) for row in found.rows] == [
        (NOON, (-(2**63), "news", "push", "requested"), 2**40),
        (NOON, (1, "news", "email", "sent"), 4),
        (NOON, (1, "news", "push", "sent"), 3),
        (NOON, (2, "O'Brien; --", "push", "sent"), 5),
        (NOON + timedelta(minutes=1), (1, "News", "push", "failed"), 6),
    ]
    assert (found.more, found.watermark) == (False, WATERMARK)


def test_each_granularity_has_its_own_rows(store: MetricsStore) -> None:
    for granularity in (Grain.HOUR, Grain.DAY):
        found = store.counts(a_query(granularity=granularity, start=NOON.replace(hour=0)))
        assert [row.count_total for row in found.rows] == [10]


def test_counts_are_summed_over_the_other_dimensions(store: MetricsStore) -> None:
    found = store.counts(a_query(dimensions=(Dimension.MEASURE,), measure=("sent", "failed")))
    assert found.rows == [Count(NOON, ("sent",), 12), Count(NOON + timedelta(minutes=1), ("failed",), 6)]


def test_values_are_never_read_as_sql(store: MetricsStore) -> None:
    found = store.counts(a_query(type=("O'Brien; --",), club_id=(2, 3), channel=("push",)))
    assert [row.count_total for row in found.rows] == [5]
    assert store.counts(a_query(type=("x' or 'a'='a",))).rows == []


def test_limited_counts_say_whether_there_are_more(store: MetricsStore) -> None:
    found = store.counts(a_query(limit=4))
    assert (len(found.rows), found.more) == (4, True)
    assert not store.counts(a_query(limit=5)).more


NEXT = NOON + timedelta(minutes=1)


@pytest.mark.parametrize("order", Order)
def test_counts_after_a_row_are_the_remaining_ones(store: MetricsStore, order: Order) -> None:
    rows = list(store.counts(a_query(order=order)).rows)
    assert {row.bucket for row in rows} == {NOON, NEXT}
    for place, row in enumerate(rows):
        assert store.counts(a_query(order=order, after=row)).rows == rows[place + 1 :]


def test_texts_are_in_the_order_of_their_code_points(store: MetricsStore) -> None:
    """Another collation than C may sort n before N, or treat different texts as equal."""
    found = store.counts(a_query(dimensions=(Dimension.TYPE, Dimension.MEASURE), start=NEXT, end=NEXT + 2 * MINUTE))
    assert [row.values for row in found.rows] == [("News", "failed"), ("news", "sent")]
    found = store.counts(
        a_query(dimensions=(Dimension.TYPE,), end=NOON + 3 * MINUTE, measure=("sent", "failed"), order=Order.LARGEST)
    )
    assert [row.count_total for row in found.rows] == [7, 7, 6, 5]


def test_rows_are_summed_into_the_named_buckets(store: MetricsStore) -> None:
    starts = (NOON - MINUTE, NEXT)
    query = a_query(start=starts[0], end=NEXT + 2 * MINUTE, buckets=starts, dimensions=(Dimension.MEASURE,))
    found = [(row.bucket, *row.values, row.count_total) for row in store.counts(query).rows]
    assert found == [
        (starts[0], "requested", 2**40),
        (starts[0], "sent", 12),
        (starts[1], "failed", 6),
        (starts[1], "sent", 7),
    ]
    assert store.counts(replace(query, buckets=())).rows == []


FILLED = {"buckets": (NOON, NEXT), "fill": True, "channel": ("push",), "measure": ("sent", "failed")}


def test_combinations_of_the_range_are_filled(store: MetricsStore) -> None:
    query = a_query(**FILLED, dimensions=(Dimension.CLUB_ID, Dimension.MEASURE))
    found = [(row.bucket, *row.values, row.count_total) for row in store.counts(query).rows]
    assert found == [
        (NOON, 1, "failed", 0),
        (NOON, 1, "sent", 3),
        (NOON, 2, "sent", 5),
        (NEXT, 1, "failed", 6),
        (NEXT, 1, "sent", 0),
        (NEXT, 2, "sent", 0),
    ]


def test_empty_combinations_of_the_filters_are_filled(store: MetricsStore) -> None:
    query = a_query(
        **FILLED | {"club_id": (2, 9)}, dimensions=(Dimension.CLUB_ID, Dimension.CHANNEL, Dimension.MEASURE)
    )
    found = store.counts(query)
    assert [row.count_total for row in found.rows] == [0, 5, 0, 0, 0, 0, 0, 0]
    rows = list(found.rows)
    assert store.counts(replace(query, order=Order.LATEST)).rows == rows[4:] + rows[:4]
    assert store.counts(replace(query, after=rows[4])).rows == rows[5:]


def test_query_over_its_bounds_is_refused(store: MetricsStore) -> None:
    with pytest.raises(TooMuch, match="more than 6 rows"):
        store.counts(a_query(start=NOON - MINUTE, end=NOON + 4 * MINUTE, dimensions=(Dimension.MEASURE,)))
    with pytest.raises(TooMuch, match="more than 8 rows"):
        store.counts(
            a_query(
                **FILLED | {"buckets": (NOON, NEXT, NEXT + MINUTE)}, dimensions=(Dimension.CLUB_ID, Dimension.MEASURE)
            )
        )
    with pytest.raises(TooMuch, match="more than 8 rows"):
        store.counts(a_query(**FILLED | {"type": ("a", "b", "c")}, dimensions=(Dimension.TYPE, Dimension.MEASURE)))


def test_deleted_rows_are_not_taken_for_never_counted(store: MetricsStore) -> None:
    assert store.counts(a_query()).kept_since == NOON - timedelta(days=90)
    hour = a_query(granularity=Grain.HOUR, end=NOON + timedelta(hours=1))
    assert store.counts(hour).kept_since is None
    assert store.list_sends(SendListQuery(club_id=(7,))).kept_since == NOON - timedelta(days=400)


def test_revised_buckets_are_those_of_the_queried_clubs(store: MetricsStore) -> None:
    hour = timedelta(hours=1)
    minutes = store.counts(a_query(club_id=(1,)))
    assert (minutes.grace, minutes.revised) == (GRACE, {NOON: NOON + hour, NEXT: NOON + 2 * hour})
    assert store.counts(a_query(club_id=(3,))).revised == {}
    whole_hour = a_query(granularity=Grain.HOUR, end=NOON + hour)
    assert store.counts(whole_hour).revised == {NOON: NOON + 3 * hour}
    assert store.counts(replace(whole_hour, club_id=(1,))).revised == {NOON: NOON + 2 * hour}
    # Days of a time zone are summed from hours.
    zone = a_query(
        granularity=Grain.HOUR,
        start=NOON - 11 * hour,
        end=NOON + 37 * hour,
        buckets=(NOON - 11 * hour, NOON + 13 * hour),
    )
    assert store.counts(replace(zone, club_id=(1,))).revised == {
        NOON - 11 * hour: NOON + 2 * hour,
        NOON + 13 * hour: NOON + 48 * hour,
    }


def test_trends_are_sorted_by_size_with_their_previous_counts(store: MetricsStore) -> None:
    query = a_query(dimensions=(Dimension.CHANNEL,), measure=("sent", "failed"), end=NOON + 3 * MINUTE)
    assert store.trends(query, NEXT) == Trends([Trend("push", 13, 8)], WATERMARK, GRACE)
    assert store.trends(query, NOON).rows == [Trend("push", 21, 0), Trend("email", 4, 0)]
    assert store.trends(replace(query, limit=1), NOON).rows == [Trend("push", 21, 0)]
    by_type = replace(query, dimensions=(Dimension.TYPE,), start=NEXT, measure=())
    assert store.trends(by_type, NEXT).rows == [Trend("news", 7, 0), Trend("News", 6, 0)]
    assert store.trends(a_query(dimensions=(Dimension.CLUB_ID,), club_id=(3,)), NOON).rows == []
    with pytest.raises(TooMuch):
        store.trends(a_query(dimensions=(Dimension.TYPE,), end=NOON + 4 * MINUTE), NOON)


@pytest.mark.parametrize("window", [14, 15, 30])
@pytest.mark.parametrize("end", [NOON + MINUTE, NOON + 3 * MINUTE, NOON + 18 * MINUTE])
def test_trends_of_any_window_are_sums_of_its_minutes(store: MetricsStore, window: int, end: datetime) -> None:
    middle = end - window * MINUTE
    query = a_query(dimensions=(Dimension.CHANNEL,), type=("news",), measure=("sent",), start=middle - window * MINUTE)
    query = replace(query, end=end)

    def counted(first: datetime, last: datetime) -> dict[str, int]:
        sums: dict[str, int] = {}
        for row in STORED:
            asked = (row.granularity, row.type, row.measure) == (Grain.MINUTE, "news", "sent")
            if asked and first <= row.bucket < last:
                sums[row.channel] = sums.get(row.channel, 0) + row.count_total
        return sums

    before = counted(query.start, middle)
    expected = [Trend(name, n, before.get(name, 0)) for name, n in counted(middle, end).items()]
    assert sorted(store.trends(query, middle).rows, key=str) == sorted(expected, key=str)


def test_position_is_the_last_counted_batch(store: MetricsStore) -> None:
    assert store.position() == StreamPosition(7, NOON, WATERMARK, GRACE)


def test_empty_store_has_no_position(postgres: StackConfig) -> None:
    with metrics_database(postgres) as url, connection_pool(url) as pool:
        assert (
            PostgresMetricsStore(pool).position()
            == InMemoryMetricsStore().position()
            == StreamPosition(None, None, None)
        )


DECISION = {
    "layer": "user",
    "rule": "channel:push",
    "settings_version": 2**53,
    "settings_changed_at": 1_777_803_720_000,
}
RECIPIENTS = [
    (7, LogRow(LogKey(NOON, "a", "push"), 1, "news", "sent", "")),
    (7, LogRow(LogKey(NEXT, "B", "push"), 2, "news", "failed", "no_template")),
    (7, LogRow(LogKey(NEXT, "b", "email"), 2, "news", "sent", "")),
    (7, LogRow(LogKey(NEXT, "b", "push"), 2, "news", "sent", "")),
    (8, LogRow(LogKey(NEXT, "c", "push"), 1, "news", "suppressed", "opted_out", DECISION)),
]
# Further log rows of the same notifications: a response has one row for each, with its highest status.
OTHER_ACCOUNTS = [
    (7, LogRow(LogKey(NOON - MINUTE, "a", "push"), 1, "news", "held", "")),
    (7, LogRow(LogKey(NEXT + MINUTE, "a", "push"), 1, "news", "failed", "too_large")),
    (7, LogRow(LogKey(NOON + 2 * MINUTE, "a", "push"), 1, "news", "sent", "")),
    (7, LogRow(LogKey(NOON + 3 * MINUTE, "B", "push"), 2, "news", "a new word", "")),
]


@pytest.fixture(params=["postgres", "memory"])
def logged(request: pytest.FixtureRequest, postgres: StackConfig) -> Iterator[MetricsStore]:
    if request.param == "memory":
        yield InMemoryMetricsStore(recipients=[*OTHER_ACCOUNTS, *RECIPIENTS])
        return
    with metrics_database(postgres) as url:
        with psycopg.connect(url) as connection:
            connection.execute("insert into stream_views values ('recipient_log', '-infinity')")
            for day in (21, 22):
                connection.execute(
                    f"create table of_{day} partition of recipient_log"
                    f" for values from ('2026-11-{day} 00:00Z') to ('2026-11-{day + 1} 00:00Z')".encode()
                )
            for number, (user_id, row) in enumerate([*OTHER_ACCOUNTS, *RECIPIENTS]):
                connection.execute(
                    "insert into recipient_log"
                    " (user_id, at, send_id, channel, club_id, type, status, reason, counted_at, decision)"
                    " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    [
                        user_id, row.key.at, row.key.send_id, row.key.channel, row.club_id, row.type, row.status,
                        row.reason, NOON + timedelta(days=number % 2), row.decision and json.dumps(row.decision),
                    ],
                )  # fmt: skip
        with connection_pool(url) as pool:
            yield PostgresMetricsStore(pool)


def test_disabled_recipient_log_has_no_answer(postgres: StackConfig) -> None:
    with (
        metrics_database(postgres) as url,
        psycopg.connect(url, autocommit=True) as connection,
        connection_pool(url) as pool,
    ):
        store = PostgresMetricsStore(pool)
        assert store.log(LogQuery(user_id=7)) is None
        assert store.list_recipients(RecipientQuery(send_id="a", club_id=1)) is None
        assert store.timeline("a", 1, RecipientKey(7, "push")) is None
        assert store.published_since("a", 1, NEXT) is None
        connection.execute("insert into stream_views values ('recipient_log', %s, '-infinity')", [NOON])
        assert store.log(LogQuery(user_id=7)) == Log([], more=False, watermark=None, since=NOON)
        connection.execute("update stream_views set kept_since = %s", [NEXT])
        assert store.log(LogQuery(user_id=7)) == Log([], more=False, watermark=None, since=NEXT)
    assert InMemoryMetricsStore().log(LogQuery(user_id=7)) is None


def test_log_of_a_user_is_latest_first_in_pages(logged: MetricsStore) -> None:
    found = logged.log(LogQuery(user_id=7))
    expected = [RECIPIENTS[place][1] for place in (3, 2, 1, 0)]
    assert found == Log(expected, more=False, watermark=None)
    for place, row in enumerate(expected):
        rest = logged.log(LogQuery(user_id=7, after=row.key, limit=1))
        assert rest == Log(expected[place + 1 : place + 2], more=place < 2, watermark=None)


def test_a_log_is_filtered(logged: MetricsStore) -> None:
    for query, places in [
        (LogQuery(user_id=7, start=NEXT, channel=("push",)), [3, 1]),
        (LogQuery(user_id=7, end=NEXT), [0]),
        (LogQuery(user_id=7, club_id=(1, 3)), [0]),
        (LogQuery(user_id=-(2**63)), []),
    ]:
        found = logged.log(query)
        assert found is not None
        assert found.rows == [RECIPIENTS[place][1] for place in places]


def test_recipients_of_a_send_are_in_pages_by_user(logged: MetricsStore) -> None:
    query = RecipientQuery(send_id="b", club_id=2)
    found = logged.list_recipients(query)
    rows = [RecipientRow(RecipientKey(7, channel), "sent", "", NEXT) for channel in ("email", "push")]
    assert found == Recipients(rows, more=False, watermark=None)
    first = logged.list_recipients(replace(query, limit=1))
    assert first == Recipients(rows[:1], more=True, watermark=None)
    rest = logged.list_recipients(replace(query, limit=1, after=rows[0].key))
    assert rest == Recipients(rows[1:], more=False, watermark=None)


def test_a_notification_has_its_decision(logged: MetricsStore) -> None:
    listed = logged.list_recipients(RecipientQuery(send_id="c", club_id=1))
    timeline = logged.timeline("c", 1, RecipientKey(8, "push"))
    assert listed is not None
    assert timeline is not None
    assert [row.decision for row in listed.rows] == [row.decision for row in timeline.rows] == [DECISION]


def test_recipients_are_filtered_by_their_present_status(logged: MetricsStore) -> None:
    """The notification was held and failed on one device; its highest status counts."""
    for values, users in [
        ({"send_id": "a", "club_id": 1}, [7]),
        ({"send_id": "a", "club_id": 1, "status": ("sent", "delivered")}, [7]),
        ({"send_id": "a", "club_id": 1, "status": ("held", "failed")}, []),
        ({"send_id": "a", "club_id": 1, "reason": ("too_large",)}, []),
        ({"send_id": "c", "club_id": 1, "reason": ("too_large", "opted_out")}, [8]),
        ({"send_id": "a", "club_id": 1, "channel": ("email",)}, []),
        ({"send_id": "a", "club_id": 2}, []),
        ({"send_id": "c", "club_id": 1, "after": RecipientKey(-(2**63), "")}, [8]),
    ]:
        found = logged.list_recipients(RecipientQuery(**values))  # type: ignore[arg-type]
        assert found is not None
        assert [row.key.user_id for row in found.rows] == users


def test_published_notifications_are_counted_by_their_times(logged: MetricsStore) -> None:
    for send_id, club_id, at, expected in [
        ("b", 2, NEXT, 2),
        ("b", 2, NEXT + timedelta(microseconds=1), 0),
        ("b", 1, NEXT, 0),
        ("x", 2, NEXT, 0),
    ]:
        assert logged.published_since(send_id, club_id, at) == expected


def test_a_notification_has_all_of_its_rows(logged: MetricsStore) -> None:
    found = logged.timeline("a", 1, RecipientKey(7, "push"))
    assert found is not None
    assert len(found.rows) == 4
    assert [row.key.at for row in found.rows] == sorted(row.key.at for row in found.rows)
    for send_id, club_id, key in [("a", 2, (7, "push")), ("a", 1, (8, "push")), ("a", 1, (7, "x\0"))]:
        assert logged.timeline(send_id, club_id, RecipientKey(*key)) == Log([], more=False, watermark=None)


def test_a_send_is_found_by_its_id(store: MetricsStore) -> None:
    assert store.send("s") == SEND


def test_a_send_has_the_states_of_its_first_chunk(store: MetricsStore) -> None:
    assert store.send("s", with_states=True) == replace(SEND, states=STATES)


@pytest.mark.parametrize("send_id", ["S", "", "s\0", "\ud800", "' or ''='", "x" * 10_000])
def test_unknown_send_is_not_found(store: MetricsStore, send_id: str) -> None:
    assert store.send(send_id) is None


def test_counts_by_reason_have_only_those_with_a_reason(store: MetricsStore) -> None:
    query = a_query(
        granularity=Grain.HOUR, end=NOON + timedelta(hours=2), dimensions=(Dimension.MEASURE, Dimension.REASON)
    )
    found = store.counts(query)
    assert [(row.bucket, *row.values, row.count_total) for row in found.rows] == [
        (NOON, "failed", "no_template", 1),
        (NOON, "suppressed", "no_device", 2),
        (NOON, "suppressed", "opted_out", 7),
        (NOON + timedelta(hours=1), "suppressed", "opted_out", 3),
    ]
    assert found.kept_since == NOON
    filtered = store.counts(replace(query, dimensions=(Dimension.MEASURE,), reason=("opted_out", "no_device")))
    assert [(row.values, row.count_total) for row in filtered.rows] == [(("suppressed",), 9), (("suppressed",), 3)]


TYPE, CHANNEL, MEASURE = Dimension.TYPE, Dimension.CHANNEL, Dimension.MEASURE


def latencies(store: MetricsStore, granularity: Grain = Grain.MINUTE, **changes: Any) -> list[tuple[Any, ...]]:
    query = LatencyQuery(granularity=granularity, **{"start": NOON, "end": NOON + MINUTE} | changes)
    return [(row.bucket, *row.values, dict(row.bins)) for row in store.latencies(query).rows]


def test_latencies_are_summed_over_lanes_and_dimensions(store: MetricsStore) -> None:
    assert latencies(store) == [
        (NOON, "News", "push", "sent", {70: 1}),
        (NOON, "news", "email", "delivered", {0: 5}),
        (NOON, "news", "push", "sent", {2: 2**40, 70: 3}),
    ]
    assert latencies(store, dimensions=(MEASURE,)) == [
        (NOON, "delivered", {0: 5}),
        (NOON, "sent", {2: 2**40, 70: 4}),
    ]


def test_latencies_match_all_filters(store: MetricsStore) -> None:
    chosen: dict[str, Any] = {"type": ("news",), "channel": ("push", "sms"), "measure": ("sent",)}
    assert latencies(store, **chosen) == [(NOON, "news", "push", "sent", {2: 2**40, 70: 3})]
    assert latencies(store, measure=("opened",)) == []


def test_latencies_of_a_day_are_those_of_its_hours(store: MetricsStore) -> None:
    day = NOON.replace(hour=0)
    span = {"start": day, "end": day + timedelta(days=2), "dimensions": (CHANNEL, MEASURE)}
    assert latencies(store, Grain.DAY, **span) == [
        (day, "push", "sent", {70: 30}),
        (day + timedelta(days=1), "push", "sent", {70: 40}),
    ]


def test_latencies_have_watermark_and_beginning(store: MetricsStore) -> None:
    query = LatencyQuery(granularity=Grain.HOUR, start=NOON, end=NOON + MINUTE)
    found = store.latencies(query)
    assert (found.watermark, found.grace, found.kept_since) == (WATERMARK, GRACE, NOON)
    assert store.latencies(replace(query, granularity=Grain.MINUTE)).kept_since is None


def test_too_many_latencies_are_refused(store: MetricsStore) -> None:
    with pytest.raises(TooMuch, match="more than 3 rows"):
        latencies(store, end=NOON + 2 * MINUTE)
