"""Postgres and the store in memory list the same sends."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import psycopg
import pytest

from local.devstack.config import StackConfig
from masscomm.domain.send_states import BY_COUNTS, SendState, counted_state
from masscomm.domain.statuses import TERMINAL, Status
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import (
    ChannelTotals,
    MetricsStore,
    SendListQuery,
    SendRow,
    SendTotals,
)
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool
from tests.support.servers.metrics_database import metrics_database

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_send(send_id: str, minute: int | None, *, club_id: int = 1, type: str = "news", **by_status: int) -> SendTotals:
    """A send to 10 users on each of two channels; by_status: notifications of one channel."""
    statuses = {status: {"": number} for status, number in by_status.items()}
    return SendTotals(
        send_id=send_id,
        club_id=club_id,
        type=type,
        requested_at=None if minute is None else NOON + minute * MINUTE,
        chunk_count=None if minute is None else 1,
        chunks=0 if minute is None else 1,
        channels={"email": ChannelTotals(10, 0, 0, statuses), "push": ChannelTotals(10, 0, 0, {"sent": {"": 10}})},
        watermark=None,
    )


SENDS = [
    a_send("a", 0, sent=10),
    a_send("B", 0, suppressed=9),
    a_send("b", 0, sent=4, cancelled=6),
    a_send("c", 1, type="O'Brien; --", delivered=8, bounced=2),
    a_send("d", 2, club_id=2, held=3, sent=7),
    a_send("e", 3, club_id=3, sent=10),
    a_send("digest-1", 1, club_id=4, sent=10),
    a_send("f", 2, club_id=4, digested=4, sent=6),
    a_send("uncounted", None),
    replace(a_send("chunk-missing", 4, sent=10), chunk_count=2),
    replace(a_send("without-outcome", 5), channels={}),
]


def every_combination() -> Iterator[SendTotals]:
    """Yield sends of club 9 with none, one or two notifications of each kind, of which a chunk may be missing."""
    kinds = (None, Status.SCHEDULED, Status.HELD, Status.SENDING, *sorted(TERMINAL))
    for number, (some, others, requested, queued, chunks) in enumerate(
        product(kinds, kinds, range(3), range(2), range(2))
    ):
        by_status = Counter(status for status in (some, others) if status is not None)
        totals = ChannelTotals(requested, 0, queued, {status: {"": count} for status, count in by_status.items()})
        send = a_send(f"combination-{number}", number, club_id=9)
        yield replace(send, chunks=chunks, channels={"push": totals})


SENDS += every_combination()


def fill(url: str) -> None:
    with psycopg.connect(url) as connection:
        for send in SENDS:
            values = [send.send_id, send.club_id, send.type, send.requested_at, send.chunk_count, send.chunks]
            connection.execute("insert into sends values (%s, %s, %s, %s, %s, %s)", values)
            for channel, totals in send.channels.items():
                connection.execute(
                    "insert into send_channels values (%s, %s, %s, 0, %s)",
                    [send.send_id, channel, totals.requested, totals.queued],
                )
                for status, reasons in totals.by_status.items():
                    connection.execute(
                        "insert into send_totals values (%s, %s, %s, '', %s)",
                        [send.send_id, channel, status, reasons[""]],
                    )


@pytest.fixture(scope="module")
def in_postgres(postgres: StackConfig) -> Iterator[PostgresMetricsStore]:
    with metrics_database(postgres) as url:
        fill(url)
        pool = connection_pool(url)
        yield PostgresMetricsStore(pool)
        pool.close()


IN_MEMORY = InMemoryMetricsStore(sends={send.send_id: send for send in SENDS})


@pytest.fixture(params=["postgres", "memory"])
def store(request: pytest.FixtureRequest) -> MetricsStore:
    if request.param == "memory":
        return IN_MEMORY
    found: MetricsStore = request.getfixturevalue("in_postgres")
    return found


def ids(rows: Sequence[SendRow]) -> list[str]:
    return [row.key.send_id for row in rows]


def test_sends_are_listed_latest_first(store: MetricsStore) -> None:
    """A send without a counted chunk has no time; equal times are in the order of code points."""
    found = store.list_sends(SendListQuery(club_id=(1,)))
    assert ids(found.rows) == ["without-outcome", "chunk-missing", "c", "b", "a", "B"]
    assert not found.more


def test_ids_of_counted_sends_are_found(store: MetricsStore) -> None:
    """A send of which only outcomes are counted has no counted chunk."""
    asked = [send.send_id for send in SENDS]
    expected = {send.send_id for send in SENDS if send.requested_at is not None}
    assert expected < set(asked)
    assert store.counted(each for each in [*asked, "none", "' or true --"]) == expected
    assert store.counted([]) == frozenset()


def test_latest_sends_are_counted_by_state(in_postgres: PostgresMetricsStore) -> None:
    since = NOON + 2 * MINUTE
    times = [(send.requested_at, counted_state(send.counts)) for send in SENDS if send.requested_at is not None]
    expected = Counter(state for at, state in times if at >= since)
    assert in_postgres.states(since, 10_000) == {state: expected[state] for state in BY_COUNTS}
    assert sum(in_postgres.states(since, 5).values()) == 5


def test_a_row_has_the_sums_of_its_channels(store: MetricsStore) -> None:
    rows = {row.key.send_id: row for row in store.list_sends(SendListQuery(club_id=(1, 2, 3))).rows}
    assert rows["b"].state is SendState.CANCELLED
    assert (rows["b"].requested, rows["b"].terminal, rows["b"].published, rows["b"].cancelled) == (20, 20, 14, 6)
    assert {send_id: str(row.state) for send_id, row in rows.items()} == {
        "a": "ended",
        "B": "in_progress",
        "b": "cancelled",
        "c": "ended",
        "d": "in_progress",
        "e": "ended",
        "chunk-missing": "in_progress",
        "without-outcome": "ended",
    }


def test_messages_of_digests_are_listed_on_request(store: MetricsStore) -> None:
    found = [ids(store.list_sends(SendListQuery(club_id=(4,), digests=each)).rows) for each in (False, True, None)]
    assert found == [["f"], ["digest-1"], ["f", "digest-1"]]
    [row] = store.list_sends(SendListQuery(club_id=(4,))).rows
    assert (row.digested, row.terminal) == (4, 20)


@pytest.mark.parametrize(
    "query",
    [
        SendListQuery(club_id=()),
        SendListQuery(club_id=None),
        SendListQuery(club_id=None, start=NOON, end=NOON + 3 * MINUTE, type=("news",), state=(SendState.ENDED,)),
        SendListQuery(club_id=(3, 2, 2)),
        SendListQuery(club_id=(1, 2), start=NOON + MINUTE, end=NOON + 3 * MINUTE),
        SendListQuery(club_id=(1,), end=NOON),
        SendListQuery(club_id=(1, 2, 3), type=("O'Brien; --",)),
        SendListQuery(club_id=(1, 2, 3), type=("x' or 'a'='a",)),
        SendListQuery(club_id=(1, 2, 3), state=(SendState.ENDED,)),
        SendListQuery(club_id=(1, 2), state=(SendState.IN_PROGRESS, SendState.CANCELLED), start=NOON),
    ],
    ids=lambda query: repr(query)[:60],
)
@pytest.mark.parametrize("digests", [False, True, None])
def test_filters_agree_in_both_stores(in_postgres: MetricsStore, query: SendListQuery, digests: bool | None) -> None:
    query = replace(query, digests=digests)
    assert list(in_postgres.list_sends(query).rows) == list(IN_MEMORY.list_sends(query).rows)


@pytest.mark.parametrize("state", ["accepted", "scheduled", "in_progress", "cancelled", "ended"])
def test_states_by_counts_agree_in_sql_and_python(in_postgres: MetricsStore, state: str) -> None:
    query = SendListQuery(club_id=(9,), state=(SendState(state),), limit=10_000)
    found = list(in_postgres.list_sends(query).rows)
    assert found
    assert found == list(IN_MEMORY.list_sends(query).rows)


@pytest.mark.parametrize(
    "query", [SendListQuery(club_id=(1, 2, 3)), SendListQuery(club_id=None, end=NOON + 6 * MINUTE)], ids=["some", "all"]
)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_make_up_the_whole_list(store: MetricsStore, limit: int, query: SendListQuery) -> None:
    whole, found, more = list(store.list_sends(query).rows), list[SendRow](), True
    while more:
        page = store.list_sends(replace(query, limit=limit, after=found[-1].key if found else None))
        found += page.rows
        more = page.more
    assert found == whole
