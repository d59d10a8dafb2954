"""A micro-batch on its way to Postgres: summed by the JVM, sent by the executors.

A record is never a row of its own: what is counted is summed first, by the send, minute, result and partition it stands
in, and its id and positions become bytes beside the sum. A task sends all its lines in one transaction under its
partition and attempt number, so that of a task that ran twice one run counts, whole.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import psycopg
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.authentication import address_now
from spark_metrics import recipient_log
from spark_metrics.transforms import each_count, minute_s, of_count, sums_of
from spark_metrics.views import View

# Columns after attempt, part and try; schemas/tables/03_stream.sql.
TABLES = {
    "staging_positions": ("topic", "partition", "first_offset", "last_offset", "records"),
    "staging_problems": ("topic", "partition", "kafka_offset", "source", "schema_id", "problem"),
    "staging_ids": ("source", "ids"),
    "staging_counts": (
        *("source", "send_id", "club_id", "type", "minute_s", "channel", "measure", "reason"),
        *("count_total", "records", "first_ms", "chunk_count"),
    ),
    "staging_states": ("send_id", "chunk_index", "channel", "status", "reason", "runs", "listed"),
    "staging_views": ("view", "row"),
    "staging_recipients": ("send_id", "club_id", "type", "channel", "status", "reason", "at_ms", "user_ids"),
}
_TEXTS = frozenset({"send_id", "type", "channel", "measure", "status", "reason", "listed", "view", "row"})

# What a task is given: of a group of records all but the last two, else those two alone.
_SENT = (
    *("topic", "partition", "source", "first_offset", "last_offset", "seen"),
    *("schema_id", "problem", "offsets", "ids", "counts", "states", "table", "line"),
)
type Sent = Sequence[Any]


# Beside the words of transforms.Problem: a record that was counted before has been seen, and adds nothing.
REFUSED = "refused"

# Records that one core has counted before two have agreed on who counts which.
_SMALL = 5_000

_BESIDE = ("chunk_index", "run", "listed")


class Staging:
    """Made once: hundreds of calls into the JVM build the columns, and every batch uses them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Column]] = {}
        # The first batch may have much to catch up with.
        self.last_records = _SMALL

    def tasks(self, cores: int) -> int:
        """How many tasks are to read a batch: one where the last batch was small, since nothing is exchanged then."""
        return 1 if self.last_records < _SMALL else cores

    def groups(self, facts: DataFrame) -> DataFrame:
        """Facts to groups of records; those that were counted before have the problem REFUSED.

        Columns: topic, partition, source, problem and schema_id (of records that are not counted), send_id, club_id,
        type, minute_s, chunk_index, channel, measure, reason; first_offset, last_offset, seen (records), offsets (of
        records that are not counted), ids (16 bytes each, of those that are), count_total, first_ms, chunk_count, runs
        and listed (spark_metrics.states).
        """
        return facts.select(*self._each).select(*self._of_each).groupBy(*self._keys).agg(*self._sums)

    def rows(self, groups: DataFrame) -> DataFrame:
        """Groups as `lines_of` reads them."""
        return groups.select(*self._of_group)

    def send(
        self,
        facts: DataFrame,
        database_url: str,
        attempt: int,
        *,
        views: Sequence[View] = (),
        recipients: bool = False,
    ) -> None:
        """Have the executors copy what `groups` gives, and the rows of the views and of the log of recipients.

        Errors: those of Spark, with psycopg's inside.
        """
        groups = self.groups(facts)
        good = F.col("problem").isNull()
        more = []
        if views:
            # The records are read once, and the groups, which are few, twice.
            groups = groups.persist()
            counts = groups.where(good).transform(sums_of)
            more += [("staging_views", view.rows_to_stage(counts)) for view in views]
        if recipients:
            more.append(("staging_recipients", facts.where(good).transform(recipient_log.rows_to_stage)))
        rows = self.rows(groups)
        for table, frame in more:
            rows = rows.unionAll(frame.select(*self._of_line(table)))
        if more:
            # A connection a task.
            rows = rows.coalesce(self.tasks(facts.sparkSession.sparkContext.defaultParallelism))
        try:
            rows.foreachPartition(partial(_copy, database_url, attempt))
        finally:
            if views:
                groups.unpersist()

    @cached_property
    def _each(self) -> list[Column]:
        return each_count(*_BESIDE)

    @cached_property
    def _of_each(self) -> list[Column]:
        return of_count(*_BESIDE)

    @cached_property
    def _keys(self) -> list[Column]:
        good = F.col("problem").isNull()
        return [
            *map(F.col, ("topic", "partition", "source", "problem")),
            F.when(~good, F.col("schema_id")).alias("schema_id"),
            *map(F.col, ("send_id", "club_id", "type")),
            minute_s().alias("minute_s"),
            *map(F.col, ("chunk_index", "channel", "measure", "reason")),
        ]

    @cached_property
    def _sums(self) -> list[Column]:
        begins, good = F.col("ordinal") == 0, F.col("problem").isNull()
        return [
            F.min("kafka_offset").alias("first_offset"),
            F.max("kafka_offset").alias("last_offset"),
            F.count(F.when(begins, True)).alias("seen"),
            F.listagg(F.when(~good, F.col("kafka_offset").cast("string")), F.lit(",")).alias("offsets"),
            F.listagg(F.when(begins & good, F.unhex(F.replace("record_id", F.lit("-"), F.lit(""))))).alias("ids"),
            F.sum("count_total").alias("count_total"),
            F.min("at_ms").alias("first_ms"),
            F.max("chunk_count").alias("chunk_count"),
            F.listagg(F.when(begins, F.col("run"))).alias("runs"),
            F.listagg(F.when(begins, F.col("listed")), F.lit("\n")).alias("listed"),
        ]

    @cached_property
    def _of_group(self) -> list[Column]:
        told = F.col("runs").isNotNull() | F.col("listed").isNotNull()
        hexed = F.concat(F.lit("\\\\x"), F.hex("runs"))
        made = {
            "counts": F.when(F.col("problem").isNull(), _line("staging_counts", records=F.col("seen"))),
            "states": F.when(told, _line("staging_states", status=F.col("measure"), runs=hexed)),
            "table": F.lit(None).cast("string"),
            "line": F.lit(None).cast("string"),
        }
        return [made[name].alias(name) if name in made else F.col(name) for name in _SENT]

    def _of_line(self, table: str) -> list[Column]:
        if table not in self._lines:
            made = {"table": F.lit(table), "line": _line(table)}
            self._lines[table] = [made.get(name, F.lit(None)).alias(name) for name in _SENT]
        return self._lines[table]


def _line(table: str, **named: Column) -> Column:
    fields = [_escaped(name, named.get(name, F.col(name))) for name in TABLES[table]]
    return F.concat_ws("\t", *[F.coalesce(field, F.lit("\\N")) for field in fields])


def _escaped(name: str, text: Column) -> Column:
    if name not in _TEXTS:
        return text.cast("string")
    escaped = F.replace(text, F.lit("\\"), F.lit("\\\\"))
    for plain, letter in (("\t", "t"), ("\n", "n"), ("\r", "r")):
        escaped = F.replace(escaped, F.lit(plain), F.lit("\\" + letter))
    return F.when(text.rlike("[\\\\\t\n\r]"), escaped).otherwise(text)


def _copy(database_url: str, attempt: int, rows: Iterator[Sent]) -> None:
    """One task's rows, in one transaction."""
    by_table = lines_of(rows)
    if not by_table:
        return
    task: Any = TaskContext.get()
    with psycopg.connect(
        address_now(database_url), connect_timeout=5, application_name="spark_metrics staging"
    ) as connection:
        copy_lines(connection, attempt, task.partitionId(), task.attemptNumber(), by_table)


def lines_of(rows: Iterable[Sent]) -> dict[str, list[str]]:
    """{table: lines of Postgres' text format} of what `Staging.send` gives a task: `Staging.rows` and further lines."""
    places: dict[tuple[str, int], tuple[int, int, int]] = {}
    ids: defaultdict[str, list[bytes]] = defaultdict(list)
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        *group, table, line = row
        if table:
            lines[table].append(line)
            continue
        topic, partition, source, first, last, seen, schema_id, problem, offsets, some_ids, counts, states = group
        place = places.get((topic, partition))
        if place:
            first, last, seen = min(first, place[0]), max(last, place[1]), seen + place[2]
        places[topic, partition] = first, last, seen
        if some_ids:
            ids[source].append(some_ids)
        if counts:
            lines["staging_counts"].append(counts)
        if states:
            lines["staging_states"].append(states)
        if problem is not None and problem != REFUSED:
            known = "\\N" if schema_id is None else schema_id
            lines["staging_problems"] += (
                f"{topic}\t{partition}\t{offset}\t{source}\t{known}\t{problem}" for offset in offsets.split(",")
            )
    if places:
        lines["staging_positions"] = [
            f"{topic}\t{partition}\t{first}\t{last}\t{seen}"
            for (topic, partition), (first, last, seen) in places.items()
        ]
    if ids:
        lines["staging_ids"] = [f"{source}\t\\\\x{b''.join(some).hex()}" for source, some in ids.items()]
    return dict(lines)


def copy_lines(
    connection: psycopg.Connection[Any], attempt: int, part: int, number: int, by_table: Mapping[str, Sequence[str]]
) -> None:
    """{table: lines} into the staging tables, as try `number` of part `part`; the caller commits."""
    with connection.cursor() as cursor:
        cursor.execute("insert into staging_tasks values (%s, %s, %s)", [attempt, part, number])
        key = f"{attempt}\t{part}\t{number}\t"
        for table, lines in by_table.items():
            columns = ", ".join(("attempt", "part", "try", *TABLES[table]))
            with cursor.copy(f"copy {table} ({columns}) from stdin".encode()) as copy:
                copy.write(key + f"\n{key}".join(lines) + "\n")
