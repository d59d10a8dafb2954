"""Views: further sums of the counts. Each view has dimensions and measures, a table, and a name in SPARK_VIEWS.

A view is merged in the transaction that counts a lane, so it is as exact as the counts. Recompute compares views as it
compares the counts. docs/internals/metrics-views.md shows how to add a view.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import LATENCY_GRAINS, REASONS_TABLE, Grain
from masscomm.errors import Stop
from spark_metrics.common.settings import imported
from spark_metrics.counting.folding import LaneTable, lane_of_bucket
from spark_metrics.sql import read_sql


@dataclass(frozen=True, kw_only=True)
class View:
    """A table of sums by key and time.

    Dimensions, measures and `where` are Postgres' SQL expressions of the columns of `source`.

    Attributes:
        table: The name of the table and of the view.
        dimensions: {column: expression} of the primary key, which also has `bucket` (timestamptz).
        measures: {column: expression}; the column, bigint, is the sum of the expression.
        source: The table of a lane that is summed (sql/lane_tables.sql): batch_counts or batch_latencies.
        labels: Labels of the sources (spark_metrics.common.sources) that the expressions use as columns: texts or null.
        where: Which sums are included.
        step_s: Every bucket begins at a multiple of this number of seconds.
        keep: The age at which spark_metrics.retention deletes a bucket; None: never.
    """

    table: str
    dimensions: Mapping[str, str]
    measures: Mapping[str, str]
    source: str = "batch_counts"
    labels: tuple[str, ...] = ()
    where: str = "true"
    step_s: int = 60
    keep: timedelta | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return ("bucket", *self.dimensions)

    @property
    def sums_of_lanes(self) -> LaneTable:
        """The table, for folding."""
        return LaneTable(self.table, self.keys, tuple(self.measures), self.step_s)

    def check_expressions(self) -> None:
        """Raise Stop if an expression uses the time, the user or random numbers."""
        texts = [*self.dimensions.values(), *self.measures.values(), self.where]
        if any(map(_NOT_REPEATABLE.search, texts)):  # guard: views.repeatable
            raise Stop(
                f"an expression of the view {self.table} depends on when it runs, or on chance: counted again, the view"
                " would be another one"
            )

    def merge_statement(self) -> bytes:
        """Return the statement that adds the sums of a lane, which are in the temporary table batch_counts."""
        return read_sql("merge_view", **self._names())

    def prepare_table(self, connection: psycopg.Connection[Any]) -> None:
        """Create the table in Postgres if it does not exist, and compare it with the view's definition. Raises Stop if
        they differ.
        """
        connection.execute(read_sql("lane_tables"))
        try:
            if connection.execute("select to_regclass(%s) is null", [self._identifier]).fetchone() == (True,):
                connection.execute(read_sql("create_view", **self._names()))
            if connection.execute(_LACKS_LANE, [self._identifier]).fetchone() == (True,):
                [(constraint,)] = connection.execute(_KEY, [self._identifier]).fetchall()
                names = {**self._names(), "constraint": sql.Identifier(constraint).as_string()}
                connection.execute(read_sql("key_with_lane", **names))
            connection.execute(b"explain " + self.merge_statement())
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            raise Stop(f"the table {self.table} differs from its view: {error}") from error

    @property
    def _identifier(self) -> str:
        return sql.Identifier(self.table).as_string()

    def _names(self) -> dict[str, str]:
        """Return the placeholders of the statements."""

        def listed(pattern: str, names: Sequence[str]) -> str:
            return ", ".join(pattern.format(sql.Identifier(name).as_string()) for name in names)

        values = {
            "bucket": f"to_timestamp(minute_s / {self.step_s} * {self.step_s})",
            **self.dimensions,
            # A sum of bigint is numeric; the cast checks its range.
            **{column: f"sum({text})::bigint" for column, text in self.measures.items()},
        }
        return {
            "table": self._identifier,
            "columns": listed("{}", tuple(values)),
            "lane": lane_of_bucket(self.step_s),
            "values": ", ".join(f"{text} as {sql.Identifier(column).as_string()}" for column, text in values.items()),
            "labels": "".join(
                f", labels ->> {sql.Literal(name).as_string()} as {sql.Identifier(name).as_string()}"
                for name in self.labels
            ),
            "source": sql.Identifier(self.source).as_string(),
            "where": self.where,
            "keys": ", ".join(str(number + 1) for number in range(len(self.keys))),
            "names": listed("{}", self.keys),
            "added": listed("{0} = t.{0} + excluded.{0}", tuple(self.measures)),
        }


_LACKS_LANE = "select not exists (select from pg_attribute where attrelid = %s::regclass and attname = 'lane')"
_KEY = "select conname from pg_constraint where conrelid = %s::regclass and contype = 'p'"
# Functions whose results depend on the time, the user, the partition or chance.
_NOT_REPEATABLE = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_name"
    r"|now|localtimestamp|current_\w+|user|session_user)\b",
    re.IGNORECASE,
)


# The latencies of notifications by bin (masscomm.domain.latencies), which are always counted: of all tenants together,
# because each tenant would have its own bins.
LATENCIES = tuple(
    View(
        table=grain.latency_table,
        source="batch_latencies",
        dimensions={name: name for name in ("type", "channel", "measure", "bin")},
        measures={"count_total": "count_total"},
        step_s=grain.seconds,
    )
    for grain in LATENCY_GRAINS
)


# Why notifications were not sent.
REASONS = View(
    table=REASONS_TABLE,
    dimensions={name: name for name in ("club_id", "type", "channel", "measure", "reason")},
    measures={"count_total": "count_total"},
    where="source = 'outcome' and reason is not null and count_total > 0",
    step_s=Grain.HOUR.seconds,
)


def load_views(names: Sequence[str]) -> tuple[View, ...]:
    """Return the views that are always counted, and those with these names (module:VARIABLE). Raises Stop for a name
    without a view, and for a view that cannot be counted again.
    """
    views = (*LATENCIES, REASONS, *(imported("SPARK_VIEWS", name, View) for name in names))
    for view in views:
        view.check_expressions()
    if len({view.table for view in views}) != len(views):
        raise Stop("SPARK_VIEWS names two views of one table")
    return views


def maintained_since(connection: psycopg.Connection[Any], name: str) -> tuple[bool, datetime | None]:
    """Return whether a view (or the log of recipients) is maintained, and since which time; None: it includes all
    counts.
    """
    row = connection.execute(
        "select nullif(greatest(since, kept_since), '-infinity') from stream_views where view = %s", [name]
    ).fetchone()
    return row is not None, row[0] if row else None


def begun_since(connection: psycopg.Connection[Any]) -> dict[str, datetime]:
    """Return, for each view that lacks the counts from before it was maintained, the time since which it is."""
    return dict(connection.execute("select view, since from stream_views where since > '-infinity'").fetchall())


def kept_since(connection: psycopg.Connection[Any]) -> dict[str, datetime]:
    """Return, for each view or table with deleted rows, the time since which its rows are kept."""
    rows = connection.execute(
        "select view, kept_since from stream_views where kept_since > '-infinity'"
        " union all select name, kept_since from stream_retention"
    )
    return dict(rows.fetchall())


def maintain(connection: psycopg.Connection[Any], names: Sequence[str]) -> None:
    """Record in stream_views that the stream maintains these tables from now on. Delete the entries of all others."""
    connection.execute("delete from stream_views where view <> all(%s)", [list(names)])
    connection.execute(read_sql("maintain_views"), [list(names)])


def complete(connection: psycopg.Connection[Any], names: Sequence[str]) -> None:
    """Record that these views also include the counts from before they were maintained."""
    connection.execute("update stream_views set since = '-infinity' where view = any(%s)", [list(names)])
