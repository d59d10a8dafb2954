"""Changed counts of the metrics database are read once each, even while transactions overlap."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from functions.webhook_events.send_counts import PostgresChangedCounts
from local.devstack.config import StackConfig
from masscomm.domain.send_states import SendState, counted_state
from masscomm.domain.sends import SendKey
from masscomm.stores.metrics_database import connection_pool
from masscomm.stores.sends.port import Position
from spark_metrics.counting.sink import PostgresSink
from tests.component.spark_metrics.test_sink import Record, count
from tests.support.servers.metrics_database import await_earlier_transactions, metrics_database

INSERT = """
with changed as (
    insert into sends (send_id, club_id, type, requested_at, chunk_count, chunks)
    values (%s, %s, 'news', now(), 1, 1)
    on conflict (send_id) do update set chunks = excluded.chunks
    returning send_id
)
insert into send_changes (changed_xid, send_id) select pg_current_xact_id(), send_id from changed
"""


@pytest.fixture
def url(postgres: StackConfig) -> Iterator[str]:
    with metrics_database(postgres) as made:
        yield made


def ids(counts: PostgresChangedCounts, position: Position, *, limit: int = 9) -> tuple[list[str], Position]:
    """Return the sends after a position from all pages, and the position after them."""
    found: list[str] = []
    while True:
        page = counts.since(position, counts.end(), [1, 2], limit=limit)
        found, position = [*found, *(each.send.send_id for each in page.sends)], page.position
        if not page.more:
            return found, position


def test_each_change_is_read_once(url: str) -> None:
    with connection_pool(url) as pool, psycopg.connect(url, autocommit=True) as writer:
        counts = PostgresChangedCounts(pool)
        writer.execute(INSERT, ["before", 1])
        await_earlier_transactions(url)
        position = counts.since(None, counts.end(), [1], limit=9).position
        with writer.transaction():
            for number in range(5):
                writer.execute(INSERT, [f"s{number}", 1])
        writer.execute(INSERT, ["other", 3])
        await_earlier_transactions(url)
        assert ids(counts, position, limit=2)[0] == ["s0", "s1", "s2", "s3", "s4"]
        _, position = ids(counts, position)
        assert ids(counts, position)[0] == []
        with psycopg.connect(url) as slow:
            slow.execute(INSERT, ["slow", 2])
            writer.execute(INSERT, ["s1", 1])
            # The earlier transaction has not ended; the later change is read after it.
            found, position = ids(counts, position)
            assert found == []
            slow.commit()
        await_earlier_transactions(url)
        assert ids(counts, position)[0] == ["slow", "s1"]
        assert counts.since(Position(2**60, ""), counts.end(), [1], limit=9).sends == []


def test_counts_are_those_of_the_send(url: str) -> None:
    with connection_pool(url) as pool, psycopg.connect(url, autocommit=True) as writer:
        counts = PostgresChangedCounts(pool)
        writer.execute(INSERT, ["s", 1])
        for channel in ("push", "email"):
            writer.execute("insert into send_channels values ('s', %s, 2, 1, 2)", [channel])
            writer.execute("insert into send_totals values ('s', %s, 'sent', '', 1)", [channel])
        writer.execute("insert into send_totals values ('s', 'push', 'failed', 'x', 1), ('s', 'email', 'sent', 'y', 1)")
        found = counts.find(SendKey(1, "s"))
        assert found is not None
        assert (found.counts.requested, found.duplicates, found.counts.queued) == (4, 2, 4)
        assert found.counts.by_status == {"sent": 3, "failed": 1}
        assert counted_state(found.counts) is SendState.ENDED
        assert counts.find(SendKey(2, "s")) is None
        assert counts.find(SendKey(1, "none")) is None


def test_the_merge_of_a_batch_stores_its_transaction(url: str) -> None:
    with connection_pool(url) as pool, closing(PostgresSink(url)) as sink:
        sink.take_over()
        counts = PostgresChangedCounts(pool)
        position = counts.since(None, counts.end(), None, limit=9).position
        for n in range(2):
            count(sink, Record(2 * n, number=2 * n, send_id="a"), Record(2 * n + 1, number=2 * n + 1, send_id="b"))
        await_earlier_transactions(url)
        found = counts.since(position, counts.end(), None, limit=9)
        assert sorted(each.send.send_id for each in found.sends) == ["a", "b"]
