"""Compares served rows with recomputed ones, and replaces them while the stream continues to count."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import Grain
from masscomm.domain.sends import SMALL_SEND
from masscomm.domain.statuses import TERMINAL
from masscomm.errors import Retry
from spark_metrics.common.database import STREAM, lock
from spark_metrics.common.span import AHEAD, Span
from spark_metrics.counting import recipient_log, webhook_results
from spark_metrics.counting.folding import COUNTS, WEBHOOK_COUNTS, LaneTable
from spark_metrics.counting.views import View
from spark_metrics.sql import read_sql

SCHEMA = "recompute"
# The key of the advisory lock that a recompute holds until its connection is closed.
_LOCK = 4_602_678_821
# The tables that guard a lane. No batch is merged in some lanes only, and no minute is complete: most stay empty.
_GUARDS = ("stream_status", "stream_offsets", "stream_watermark", "lane_offsets", "quarantine", "revised_minutes")
# The table into which lanes write the changes of sends; that of a recompute is not read.
_CHANGES = "send_changes"


@dataclass(frozen=True)
class Table:
    """A table that is compared.

    Attributes:
        key: The columns of the primary key.
        sums: The columns with counts. A swap adds the difference to them.
        scope: The SQL condition for the rows in a span.
        other: The columns whose values a swap replaces.
        step_s: The length of the table's buckets, which are compared as a whole; 0: the table has no buckets.
        kept_since: Older rows are deleted, and not compared.
        query: The SQL of the compared rows if they are computed from a table; such rows are never swapped.
        of_lanes: The table as one with a row for each lane, whose sums are compared; a swap makes one row of them.
        small_kept_since: Ended small sends that were requested earlier are compared only if they are not deleted.
    """

    key: tuple[str, ...]
    sums: tuple[str, ...]
    scope: str
    other: tuple[str, ...] = ()
    step_s: int = 0
    kept_since: datetime | None = None
    query: str = ""
    of_lanes: LaneTable | None = None
    small_kept_since: datetime | None = None

    def touched(self, span: Span) -> Span:
        """Return the span that is compared."""
        return (span.whole(self.step_s) if self.step_s else span).since(self.kept_since)


_BUCKETS = "bucket >= {first} and bucket < {end}"


def _buckets(table: LaneTable, kept_since: datetime | None = None) -> Table:
    key, sums = tuple(table.key), tuple(table.sums)
    return Table(key, sums, _BUCKETS, step_s=table.step_s, kept_since=kept_since, of_lanes=table)


# The name of the ended small sends among the deleted rows (stream_retention).
SMALL_SENDS = "small_sends"


def ended_small_sends(before: str) -> bytes:
    """Return the SQL query for the ids of the small sends that were requested before a time and have ended.

    Args:
        before: The SQL literal of the time.
    """
    terminal = ", ".join(f"'{status}'" for status in sorted(TERMINAL))  # guard: retention.waiting_small_sends
    return read_sql("ended_small_sends", before=before, small=SMALL_SEND, terminal=terminal)


# The recomputed rows of sends that are deleted: those that have ended, were small, and are not served any more.
_NOT_DELETED = "({scope}) and (send_id in (select send_id from was_sends) or send_id not in ({ended}))"
# If a send has no chunk, its rows are compared only when the span is open on both sides.
_OF_SENDS = (
    "{everything} or send_id in (select send_id from sends where requested_at >= {first} and requested_at < {end})"
)
TABLES = {
    **{table.name: _buckets(table) for table in (*COUNTS, *WEBHOOK_COUNTS)},
    "sends": Table(
        ("send_id",),
        ("chunks",),
        "requested_at >= {first} and requested_at < {end}",
        ("club_id", "type", "requested_at", "chunk_count"),
    ),
    "send_channels": Table(("send_id", "channel"), ("requested", "duplicates", "queued"), _OF_SENDS),
    "send_totals": Table(("send_id", "channel", "status", "reason"), ("count_total",), _OF_SENDS),
    webhook_results.LOG: Table(
        ("hour", "club_id", "endpoint_id", "type", "status"),
        ("rows", "checksum"),
        "true",
        step_s=Grain.HOUR.seconds,
        query=read_sql("webhook_log_compared").decode(),
    ),
    "send_states": Table(("send_id", "chunk_index", "channel", "block"), (), _OF_SENDS, ("codes",)),
}

_SHOWN = 20
_MINUTES = Grain.MINUTE.table


def tables_of(
    views: Iterable[View],
    kept: Mapping[str, datetime],
    archived: datetime | None,
    begun: Mapping[str, datetime] | None = None,
) -> dict[str, Table]:
    """Return the compared tables: TABLES and those of the views.

    Args:
        kept: The time since which a table's rows are kept, for tables with deleted rows.
        archived: The time since which records are kept in the archive, if some were deleted.
        begun: The time since which a view has all counts, for views that lack earlier ones.
    """
    sends = kept.get("sends")
    # A send is deleted by the time of its first record, and compared by that of its request, which may be later.
    requested = sends and sends + AHEAD
    small = kept.get(SMALL_SENDS)

    def since(view: View) -> datetime | None:
        began = begun.get(view.table) if begun else None  # guard: recompute.later_views
        return max(filter(None, (kept.get(view.table), archived, began)), default=None)

    return {
        name: replace(table, kept_since=kept.get(name))
        if table.step_s
        else replace(table, kept_since=requested, small_kept_since=small and small + AHEAD)
        for name, table in TABLES.items()
    } | {view.table: _buckets(view.sums_of_lanes, since(view)) for view in views}


def log_of(since: datetime | None) -> dict[str, Table]:
    """Return the log of recipients as a compared table, limited to events since a time."""
    key, sums = ("send_id", "channel", "status", "reason"), ("rows", "users", "checksum")
    return {recipient_log.NAME: Table(key, sums, "true", kept_since=since, query=read_sql("log_compared").decode())}


class Served:
    """Compares the rows of one span, in temporary tables of the connection.

    For a table T, the table was_T has the served rows and now_T the recomputed ones, which lanes have merged into the
    schema `recompute`.
    """

    def __init__(self, connection: psycopg.Connection[Any], span: Span, tables: Mapping[str, Table] = TABLES) -> None:
        self._connection = connection
        self._span = span
        self.tables = tables

    def touched(self) -> Span:
        """Return the span from the first to the last compared bucket."""
        spans = [table.touched(self._span) for table in self.tables.values() if table.step_s]
        firsts, ends = ([moment for moment in side if moment] for side in zip(*map(astuple, spans), strict=True))
        return Span(min(firsts) if len(firsts) == len(spans) else None, max(ends) if len(ends) == len(spans) else None)

    def remember(self) -> None:
        """Copy the rows that are served at this time."""
        for name in self.tables:
            self._run("compared_rows", name, copy=_quoted(f"was_{name}"))

    def differing(self) -> int:
        """Compare all tables with the recomputed ones, and return the number of rows that differ."""
        with self._connection.transaction():
            self._connection.execute(f"set local search_path to {SCHEMA}".encode())
            for name, table in self.tables.items():
                self._run(
                    "compared_rows", name, copy=_quoted(f"now_{name}"), scope=self._scope_of_recomputed(name, table)
                )
        return sum(self._run("differing_rows", name).rowcount for name in self.tables)

    def report(self) -> Iterator[str]:
        """Yield one line with both values for each row that differs, at most twenty per table."""
        for name in self.tables:
            diff = sql.Identifier(f"diff_{name}")
            shown = sql.SQL("select was::text, now::text from {} order by 1, 2 limit {}").format(diff, _SHOWN)
            for was, now in self._connection.execute(shown):
                yield f"{name}: served {was}, recomputed {now}"

    def swap(self) -> None:
        """Replace the served rows by the recomputed ones, in one transaction. Counts that the stream has added since
        remember() are kept.

        Raises Retry if the stream has changed a differing send or block since then; then no row is replaced.
        """
        connection = self._connection
        swapped = {name: table for name, table in self.tables.items() if not table.query}
        with connection.transaction():
            # The stream cannot merge a batch while this lock is held.
            connection.execute("select 1 from stream_status where stream = %s for update", [STREAM])
            for name in (name for name, table in swapped.items() if table.other):
                if self._run("changed_rows", name).fetchone() == (True,):  # guard: recompute.changed_meanwhile
                    raise Retry(f"the stream has changed a differing row of {name} meanwhile: run it again")
            if _MINUTES in swapped:
                self._run("swap_revised_minutes", _MINUTES)
            for name, table in swapped.items():
                if table.of_lanes:
                    table.of_lanes.fold_keys(connection, _quoted(f"diff_{name}"))  # guard: recompute.rows_of_lanes
                self._run("swap_rows", name)
            for name in (name for name, table in swapped.items() if "send_id" in table.key):
                self._run("mark_changed_sends", name)  # guard: recompute.announced_sends

    def _scope_of_recomputed(self, name: str, table: Table) -> str:
        scope = self._names(name)["scope"]
        if table.small_kept_since is None:
            return scope
        # guard: recompute.deleted_small_sends
        return _NOT_DELETED.format(scope=scope, ended=ended_small_sends(_literal(table.small_kept_since)).decode())

    def _run(self, statement: str, name: str, **names: str) -> psycopg.Cursor[Any]:
        return self._connection.execute(read_sql(statement, **{**self._names(name), **names}))

    def _names(self, name: str) -> dict[str, str]:
        """Return the placeholders of the statements."""
        table = self.tables[name]
        key, sums, other = ([*map(_quoted, columns)] for columns in (table.key, table.sums, table.other))
        touched = table.touched(self._span)
        ends = {
            "first": _literal(touched.first or "-infinity"),
            "end": _literal(touched.end or "infinity"),
            "kept_since": _literal(table.kept_since or "-infinity"),
            "everything": str(touched == Span()),
        }
        served = _quoted(name)
        rows = f"({table.query.format(**ends)}) as rows" if table.query else served
        if table.of_lanes:
            sums_of_lanes = ", ".join(f"sum({c}) as {c}" for c in sums)
            rows = f"(select {', '.join(key)}, {sums_of_lanes} from {served} group by {', '.join(key)}) as rows"  # noqa: S608
        differences = [f"coalesce((now).{c}, 0) - coalesce((was).{c}, 0)" for c in sums]
        return {
            "served": served,
            **{each: _quoted(f"{each}_{name}") for each in ("was", "now", "diff")},
            "rows": rows,
            "scope": table.scope.format(**ends),
            "columns": ", ".join([*key, *sums, *other]),
            "key": ", ".join(key),
            "unique": ", ".join([*key, *(["lane"] if table.of_lanes else [])]),
            "first_key": key[0],
            "same": " and ".join(f"{served}.{c} = d.{c}" for c in key),
            "zero": "".join(f" and {served}.{c} = 0" for c in sums),
            "served_other": ", ".join(f"{served}.{c}" for c in other),
            "was_other": ", ".join(f"(d.was).{c}" for c in other),
            **{f"{each}_values": ", ".join(f"{each}.{c}" for c in [*sums, *other]) for each in ("was", "now")},
            "inserted": ", ".join([*key, *differences, *[f"coalesce((now).{c}, (was).{c})" for c in other]]),
            "updated": ", ".join(
                [*[f"{c} = s.{c} + excluded.{c}" for c in sums], *[f"{c} = excluded.{c}" for c in other]]
            ),
        }


class RecomputedTables:
    """The tables of the schema `recompute`, into which the lanes of a recompute merge.

    They have the names and columns of the served tables and of those that guard the stream's lanes, so a recompute
    merges by the same task and statements as the stream (spark_metrics.counting.lane_merge). Only one recompute runs at
    a time.
    """

    def __init__(self, connection: psycopg.Connection[Any], names: Iterable[str], *, wait_s: float = 10) -> None:
        """Create the tables, instead of those that a killed run has left.

        Args:
            wait_s: How long to wait for the end of another recompute.

        Raises:
            Retry: Another recompute runs.
        """
        self._connection = connection
        held = "another recompute runs on this database: wait for its end"
        lock(connection, _LOCK, wait_s=wait_s, held=held)  # guard: recompute.one_at_a_time
        self.close()
        for name in (*_GUARDS, _CHANGES, *names):
            # No index of the log would be used.
            indexes = "" if name == recipient_log.NAME else " including all"
            table = sql.Identifier(name).as_string()
            connection.execute(read_sql("create_recomputed", schema=SCHEMA, table=table, indexes=indexes))

    def begin_part(self) -> int:
        """Return the epoch of the next part. The lanes of this part have merged nothing, and a task of an earlier part
        that runs once more merges nothing.
        """
        with self._connection.transaction():
            # This waits for the tasks that are merging.
            # guard: recompute.earlier_part
            self._connection.execute("truncate recompute.stream_status, recompute.lane_offsets")
            [(epoch,)] = self._connection.execute(_BEGIN, [STREAM]).fetchall()
        return int(epoch)

    def close(self) -> None:
        """Drop all tables of the schema: the log has user ids."""
        if self._connection.closed:
            return
        for (name,) in self._connection.execute(read_sql("recomputed_tables", schema=SCHEMA)).fetchall():
            self._connection.execute(sql.SQL("drop table {}").format(sql.Identifier(SCHEMA, name)))


# The id of a transaction: no other part, of any run, has the same epoch.
_BEGIN = """
insert into recompute.stream_status (stream, epoch) values (%s, pg_current_xact_id()::text::bigint) returning epoch
"""


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()


def _literal(value: datetime | str) -> str:
    return sql.Literal(str(value)).as_string()
