"""Compares served rows with recomputed ones, and replaces them while the stream continues to count."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from masscomm.domain.grains import Grain
from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.errors import Retry
from spark_metrics import recipient_log
from spark_metrics.database import STREAM
from spark_metrics.span import Span
from spark_metrics.staged import SCHEMA, StagedTable
from spark_metrics.views import View


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
    """

    key: tuple[str, ...]
    sums: tuple[str, ...]
    scope: LiteralString
    other: tuple[str, ...] = ()
    step_s: int = 0
    kept_since: datetime | None = None
    query: LiteralString = ""

    def touched(self, span: Span) -> Span:
        """Return the span that is compared."""
        return (span.whole(self.step_s) if self.step_s else span).since(self.kept_since)


_BUCKETS: LiteralString = "bucket >= {first} and bucket < {end}"


def _buckets(step_s: int) -> Table:
    key = ("bucket", "club_id", "type", "channel", "measure")
    return Table(key, ("count_total",), _BUCKETS, step_s=step_s)


# If a send has no chunk, its rows are compared only when the span is open on both sides.
_OF_SENDS = (
    "{everything} or send_id in (select send_id from sends where requested_at >= {first} and requested_at < {end})"
)
TABLES = {
    **{grain.table: _buckets(grain.seconds) for grain in Grain},
    "sends": Table(
        ("send_id",),
        ("chunks",),
        "requested_at >= {first} and requested_at < {end}",
        ("club_id", "type", "requested_at", "chunk_count"),
    ),
    "send_channels": Table(("send_id", "channel"), ("requested", "duplicates", "queued"), _OF_SENDS),
    "send_totals": Table(("send_id", "channel", "status", "reason"), ("count_total",), _OF_SENDS),
    "send_states": Table(("send_id", "chunk_index", "channel", "block"), (), _OF_SENDS, ("codes",)),
}

_SHOWN = 20
# A send is deleted by the time of its first record, and compared by that of its request, which may be later.
_REQUESTED_AHEAD = timedelta(milliseconds=FAR_FUTURE_MS)
_MINUTES = Grain.MINUTE.table


def tables_of(views: Iterable[View], kept: Mapping[str, datetime]) -> dict[str, Table]:
    """Return the compared tables: TABLES and those of the views. For a table with deleted rows, `kept` has the time
    since which its rows are kept.
    """
    sends = kept.get("sends")
    return {
        name: replace(table, kept_since=kept.get(name) if table.step_s else sends and sends + _REQUESTED_AHEAD)
        for name, table in TABLES.items()
    } | {
        view.table: Table(view.keys, view.sums, _BUCKETS, step_s=view.step_s, kept_since=kept.get(view.table))
        for view in views
    }


def log_of(since: datetime | None) -> dict[str, Table]:
    """Return the log of recipients as a compared table, limited to events since a time."""
    log = Table(recipient_log.KEY, recipient_log.SUMS, "true", kept_since=since, query=recipient_log.COMPARED)
    return {recipient_log.NAME: log}


class Served:
    """Compares the rows of one span, in temporary tables of the connection.

    For a table T, the table was_T has the served rows and now_T the recomputed ones, which the tasks of executors have
    stored (spark_metrics.staged).
    """

    def __init__(self, connection: psycopg.Connection[Any], span: Span, tables: Mapping[str, Table] = TABLES) -> None:
        self._connection = connection
        self._span = span
        self.tables = tables

    def remember(self) -> None:
        """Copy the rows that are served at this time, and create the tables of this run."""
        for (abandoned,) in self._connection.execute(_ABANDONED, [SCHEMA]).fetchall():
            self._connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(SCHEMA, abandoned)))
        for name in self.tables:
            self._run("create temp table {was} as select {columns} from {rows} where {scope}", name)
            self._run("create temp table {now} as select {columns} from {was} limit 0", name)
            self._run("create unlogged table {staged} as select 0 as task, {columns} from {was} limit 0", name)

    def staged(self, *names: str) -> dict[str, StagedTable]:
        """Return the tables that tasks fill with recomputed rows: each with the columns key, sums, other. Sums that
        several tasks have stored for one key are added.
        """
        return {name: StagedTable(self._staged_name(name), _columns(self.tables[name])) for name in names}

    def collect(self) -> None:
        """Take the recomputed rows out of the tables that the tasks have filled."""
        for name, table in self.tables.items():
            self._run(_COLLECT if table.other else _COLLECT_SUMS, name)
            self._run("drop table {staged}", name)

    def differing(self) -> int:
        """Compare all tables, and return the number of rows that differ."""
        for name in self.tables:
            self._run(_DIFFERING, name)
        counts = [self._run("select count(*) from {diff}", name).fetchone() for name in self.tables]
        return sum(row[0] for row in counts if row)

    def report(self) -> Iterator[str]:
        """Yield one line with both values for each row that differs, at most twenty per table."""
        for name in self.tables:
            for was, now in self._run("select was::text, now::text from {diff} order by 1, 2 limit {shown}", name):
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
                changed = self._run(_CHANGED, name).fetchone()
                if changed and changed[0]:
                    raise Retry(f"the stream has changed a differing row of {name} meanwhile: run it again")
            if _MINUTES in swapped:
                self._run(_REVISED, _MINUTES)
            for name, table in swapped.items():
                self._run(_ADD if table.sums else _SET, name)
                self._run(_DROP, name)

    def _staged_name(self, name: str) -> str:
        return f"{name}_{self._connection.info.backend_pid}"

    def _run(self, text: LiteralString, name: str) -> psycopg.Cursor[Any]:
        return self._connection.execute(self._statement(text, name))

    def _statement(self, text: LiteralString, name: str) -> sql.Composed:
        table = self.tables[name]
        names = {
            "served": sql.Identifier(name),
            "was": sql.Identifier(f"was_{name}"),
            "now": sql.Identifier(f"now_{name}"),
            "diff": sql.Identifier(f"diff_{name}"),
            "staged": sql.Identifier(SCHEMA, self._staged_name(name)),
        }
        comma = sql.SQL(", ")

        def listed(pattern: LiteralString, columns: tuple[str, ...]) -> sql.Composed:
            return comma.join(sql.SQL(pattern).format(c=sql.Identifier(column)) for column in columns)

        values = (*table.sums, *table.other)
        touched = table.touched(self._span)
        span = {
            "everything": sql.Literal(touched == Span()),
            "first": sql.Literal(touched.first.isoformat() if touched.first else "-infinity"),
            "end": sql.Literal(touched.end.isoformat() if touched.end else "infinity"),
            "kept_since": sql.Literal(table.kept_since.isoformat() if table.kept_since else "-infinity"),
        }
        return sql.SQL(text).format(
            **names,
            scope=sql.SQL(table.scope).format(**span),
            rows=sql.SQL("({}) as rows").format(sql.SQL(table.query).format(**span))
            if table.query
            else names["served"],
            columns=listed("{c}", _columns(table)),
            added=listed("sum({c})", table.sums),
            key=listed("{c}", table.key),
            same=sql.SQL(" and ").join(
                sql.SQL("{s}.{c} = d.{c}").format(s=names["served"], c=sql.Identifier(c)) for c in table.key
            ),
            served_other=listed("{c}", table.other),
            was_other=listed("(d.was).{c}", table.other),
            was_values=listed("was.{c}", values),
            now_values=listed("now.{c}", values),
            inserted=comma.join(
                [
                    *(sql.SQL("{c}").format(c=sql.Identifier(c)) for c in table.key),
                    *(
                        sql.SQL("coalesce((now).{c}, 0) - coalesce((was).{c}, 0)").format(c=sql.Identifier(c))
                        for c in table.sums
                    ),
                    *(sql.SQL("coalesce((now).{c}, (was).{c})").format(c=sql.Identifier(c)) for c in table.other),
                ]
            ),
            updated=comma.join(
                [
                    *(sql.SQL("{c} = s.{c} + excluded.{c}").format(c=sql.Identifier(c)) for c in table.sums),
                    *(sql.SQL("{c} = excluded.{c}").format(c=sql.Identifier(c)) for c in table.other),
                ]
            ),
            zero=sql.SQL(" and ").join(
                [
                    sql.SQL("true"),
                    *(sql.SQL("{s}.{c} = 0").format(s=names["served"], c=sql.Identifier(c)) for c in table.sums),
                ]
            ),
            first_key=sql.Identifier(table.key[0]),
            shown=sql.Literal(_SHOWN),
        )


def _columns(table: Table) -> tuple[str, ...]:
    return (*table.key, *table.sums, *table.other)


# The tables of runs that have ended, whose names end with the process id of their connection.
_ABANDONED = """
select relname from pg_class
where relnamespace = to_regnamespace(%s) and relkind = 'r'
    and substring(relname from '[0-9]+$')::bigint <> all (select pid from pg_stat_activity)
"""

_COLLECT = "insert into {now} ({columns}) select {columns} from {staged}"

_COLLECT_SUMS = "insert into {now} ({columns}) select {key}, {added} from {staged} group by {key}"

_DIFFERING = """
create temp table {diff} as
select {key}, was, now from {was} as was full join {now} as now using ({key})
where ({was_values}) is distinct from ({now_values})
"""

# The values that are replaced, not added: the stream may have changed them since they were remembered.
_CHANGED = """
select count(*) from {diff} as d left join {served} on {same}
where ({served_other}) is distinct from ({was_other})
"""

# Readers look for changes of complete minutes in this table.
_REVISED = """
insert into revised_minutes as r (minute, club_id, revised_at, late_records, late_total)
select distinct bucket, club_id, now(), 0, 0 from {diff}, stream_watermark as w
where bucket + interval '1 minute' + make_interval(secs => w.grace_ms / 1000.0) <= w.watermark
on conflict (minute, club_id) do update set revised_at = excluded.revised_at
"""

# Only the difference between recomputed and remembered rows is added, so that later counts of the stream are kept.
_ADD = """
insert into {served} as s ({columns}) select {inserted} from {diff} on conflict ({key}) do update set {updated}
"""

_SET = """
insert into {served} as s ({columns}) select {inserted} from {diff} where (now).{first_key} is not null
on conflict ({key}) do update set {updated}
"""

_DROP = "delete from {served} using {diff} as d where {same} and (d.now).{first_key} is null and {zero}"
