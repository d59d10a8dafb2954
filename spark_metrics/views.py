"""Views: further sums of the counts. Each view has a transform, a table, and a name in SPARK_VIEWS.

A view is merged in the transaction that counts a batch, so it is as exact as the counts. Recompute compares views as it
compares the counts. docs/metrics-views.md shows how to add a view.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from io import StringIO
from typing import Any

import psycopg
from psycopg import sql
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.errors import Stop
from spark_metrics.sql import read_sql


@dataclass(frozen=True, kw_only=True)
class View:
    """A table of sums by key and time.

    Attributes:
        table: The name of the table and of the view.
        keys: The columns of the primary key, including `bucket` (timestamptz).
        sums: The other columns, bigint; batches are added to them.
        transform: Makes rows of keys and sums from the rows of spark_metrics.sums.sums. It must depend on these
            rows only, because recompute repeats it.
        step_s: Every bucket begins at a multiple of this number of seconds.
        keep: The age at which spark_metrics.retention deletes a bucket; None: never.
    """

    table: str
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    transform: Callable[[DataFrame], DataFrame]
    step_s: int = 60
    keep: timedelta | None = None

    def rows_to_stage(self, counted: DataFrame) -> DataFrame:
        """Return a batch's rows as (view, row): the view's name, and a JSON object of keys and sums."""
        return counted.transform(self.transform).select(
            F.lit(self.table).alias("view"), F.to_json(F.struct(*self.keys, *self.sums)).alias("row")
        )

    def check_transform(self, spark: SparkSession) -> None:
        """Plan the transform once, without rows.

        Raises Stop if the plan fails, has other columns than keys and sums, or uses the time or random numbers.
        """
        try:
            rows = self.rows_to_stage(spark.createDataFrame([], _SUMS))
        except PySparkException as error:
            raise Stop(f"the transform of the view {self.table} cannot be planned: {error}") from error
        if not _is_repeatable(rows):  # guard: views.repeatable
            raise Stop(
                f"the transform of the view {self.table} depends on when it runs, or on chance: counted again, the view"
                " would be another one"
            )

    def merge(self, connection: psycopg.Connection[Any], attempt: int) -> None:
        connection.execute(self._merge_statement(), [attempt, self.table])

    def check_table(self, connection: psycopg.Connection[Any]) -> None:
        """Compare the table in Postgres with the view's definition. Raises Stop if they differ."""
        try:
            connection.execute(b"explain " + self._merge_statement(), [0, self.table])
        except psycopg.ProgrammingError as error:
            raise Stop(f"the table {self.table} differs from its view: {error}") from error

    def _merge_statement(self) -> bytes:
        def listed(pattern: str, names: Sequence[str]) -> str:
            return ", ".join(pattern.format(sql.Identifier(name).as_string()) for name in names)

        return read_sql(
            "merge_view",
            table=sql.Identifier(self.table).as_string(),
            columns=listed("{}", (*self.keys, *self.sums)),
            keys=listed("{}", self.keys),
            summed=listed("sum({})", self.sums),
            added=listed("{0} = t.{0} + excluded.{0}", self.sums),
        )


# Functions whose results depend on the time, the user, the partition or chance.
_NOT_REPEATABLE = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_name"
    r"|now|localtimestamp|current_\w+|user|session_user)\(",
    re.IGNORECASE,
)


def _is_repeatable(frame: DataFrame) -> bool:
    """Return whether the frame always has the same result for the same rows, by the functions in its plan."""
    conf = frame.sparkSession.conf
    lengths = {name: str(conf.get(name)) for name in _PLAN_LENGTHS}
    for name in lengths:
        conf.set(name, _WHOLE_PLAN)
    try:
        with redirect_stdout(StringIO()) as plan:
            frame.explain(mode="extended")
    finally:
        for name, length in lengths.items():
            conf.set(name, length)
    return _NOT_REPEATABLE.search(plan.getvalue()) is None


_PLAN_LENGTHS = ("spark.sql.maxPlanStringLength", "spark.sql.debug.maxToStringFields")
_WHOLE_PLAN = 1_000_000

# The columns of spark_metrics.sums.sums.
_SUMS = (
    "source string, send_id string, club_id long, type string, minute_s long, channel string, measure string,"
    " reason string, count_total long, records long, first_ms long, chunk_count int"
)


def load_views(names: Sequence[str]) -> tuple[View, ...]:
    """Return the views with these names (module:VARIABLE). Raises Stop for a name without a view."""
    views = []
    for name in names:
        module, _, variable = name.partition(":")
        try:
            view = getattr(import_module(module), variable)
        except (ImportError, AttributeError, ValueError) as error:
            raise Stop(f"SPARK_VIEWS names {name}, which cannot be imported: {error}") from error
        if not isinstance(view, View):
            raise Stop(f"SPARK_VIEWS names {name}, which is not a spark_metrics.views.View")
        views.append(view)
    if len({view.table for view in views}) != len(views):
        raise Stop("SPARK_VIEWS names two views of one table")
    return tuple(views)


def maintained_since(connection: psycopg.Connection[Any], name: str) -> tuple[bool, datetime | None]:
    """Return whether a view (or the log of recipients) is maintained, and since which time; None: it includes all
    counts.
    """
    row = connection.execute(
        "select nullif(greatest(since, kept_since), '-infinity') from stream_views where view = %s", [name]
    ).fetchone()
    return row is not None, row[0] if row else None


def kept_since(connection: psycopg.Connection[Any]) -> dict[str, datetime]:
    """Return, for each view with deleted rows, the time since which its rows are kept."""
    rows = connection.execute("select view, kept_since from stream_views where kept_since > '-infinity'")
    return dict(rows.fetchall())


def maintain(connection: psycopg.Connection[Any], names: Sequence[str]) -> None:
    """Record in stream_views that the stream maintains these tables from now on. Delete the entries of all others."""
    connection.execute("delete from stream_views where view <> all(%s)", [list(names)])
    connection.execute(_MAINTAINED, [list(names)])


def complete(connection: psycopg.Connection[Any], names: Sequence[str]) -> None:
    """Record that these views also include the counts from before they were maintained."""
    connection.execute("update stream_views set since = '-infinity' where view = any(%s)", [list(names)])


# A new view lacks earlier counts, unless the database has no counts yet.
_MAINTAINED = """
insert into stream_views (view, since)
select name, case when exists (select from stream_offsets) then now() else '-infinity' end
from unnest(%s::text[]) as name
on conflict do nothing
"""
