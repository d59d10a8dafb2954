"""A micro-batch on its way to Postgres: the lines of COPY are written by the JVM, and sent by the executors.

A record is never a row of its own but for its id: what is counted is summed first. A task sends all its lines in one
transaction under its partition and attempt number, so that of a task that ran twice one run counts, whole.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import psycopg
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from masscomm.authentication import address_now
from spark_metrics import recipient_log
from spark_metrics.transforms import exploded, states, sums
from spark_metrics.views import View

# Columns after attempt, part and try; schemas/tables/03_stream.sql.
TABLES = {
    "staging_positions": ("topic", "partition", "first_offset", "last_offset", "records"),
    "staging_problems": ("topic", "partition", "kafka_offset", "source", "schema_id", "problem"),
    "staging_ids": ("source", "record_id"),
    "staging_counts": (
        *("source", "send_id", "club_id", "type", "minute_s", "channel", "measure", "reason"),
        *("count_total", "records", "first_ms", "chunk_count"),
    ),
    "staging_states": ("send_id", "chunk_index", "channel", "placed"),
    "staging_views": ("view", "row"),
    "staging_recipients": ("send_id", "club_id", "type", "channel", "status", "reason", "at_ms", "user_ids"),
}
TEXTS = frozenset(
    {"topic", "source", "problem", "send_id", "type", "channel", "measure", "reason", "status", "view", "row"}
)


def staged(facts: DataFrame, views: Iterable[View] = (), *, recipients: bool = False) -> DataFrame:
    """Facts, with the column `refused` (a record that was counted before), to rows of (table, lines).

    lines: one or more lines of Postgres' text format, each ended by a line feed.
    """
    good = F.col("problem").isNull() & ~F.col("refused")
    places = facts.groupBy("topic", "partition").agg(
        F.min("kafka_offset").alias("first_offset"),
        F.max("kafka_offset").alias("last_offset"),
        F.count("*").alias("records"),
        _joined(F.when(good, _line("source", "record_id"))).alias("ids"),
        _joined(F.when(F.col("problem").isNotNull(), _line(*TABLES["staging_problems"]))).alias("problems"),
    )
    by_place = places.select(
        F.explode(
            F.array(
                _lines("staging_positions", _line(*TABLES["staging_positions"])),
                _lines("staging_ids", F.col("ids")),
                _lines("staging_problems", F.col("problems")),
            )
        ).alias("r")
    ).select("r.*")
    counted = facts.where(good)
    counts = counted.transform(exploded).transform(sums)
    told = counted.transform(states).withColumn(
        "placed", F.concat(F.lit("{"), F.array_join(F.col("placed").cast("array<string>"), ","), F.lit("}"))
    )
    rows = by_place
    more = [("staging_views", view.rows_to_stage(counts)) for view in views]
    if recipients:
        more.append(("staging_recipients", recipient_log.rows_to_stage(counted)))
    for table, frame in (("staging_counts", counts), ("staging_states", told), *more):
        rows = rows.unionAll(frame.select(_lines(table, _line(*TABLES[table])).alias("r")).select("r.*"))
    # A connection a task.
    return rows.where(F.length("lines") > 0).coalesce(facts.sparkSession.sparkContext.defaultParallelism)


def send(rows: DataFrame, database_url: str, attempt: int) -> None:
    """Have the executors copy what `staged` gives. Errors: those of Spark, with psycopg's inside."""
    rows.foreachPartition(partial(_copy, database_url, attempt))


def _lines(table: str, lines: Column) -> Column:
    return F.struct(F.lit(table).alias("table"), lines.alias("lines"))


def _joined(line: Column) -> Column:
    return F.array_join(F.collect_list(line), "")


def _line(*columns: str) -> Column:
    fields = [F.coalesce(_escaped(name), F.lit("\\N")) for name in columns]
    return F.concat(F.concat_ws("\t", *fields), F.lit("\n"))


def _escaped(name: str) -> Column:
    if name not in TEXTS:
        return F.col(name).cast("string")
    text = F.col(name)
    escaped = F.replace(text, F.lit("\\"), F.lit("\\\\"))
    for plain, letter in (("\t", "t"), ("\n", "n"), ("\r", "r")):
        escaped = F.replace(escaped, F.lit(plain), F.lit("\\" + letter))
    return F.when(text.rlike("[\\\\\t\n\r]"), escaped).otherwise(text)


def _copy(database_url: str, attempt: int, rows: Iterator[Row]) -> None:
    """One task's lines, in one transaction."""
    by_table: dict[str, list[str]] = {}
    for table, lines in rows:
        by_table.setdefault(table, []).append(lines)
    if not by_table:
        return
    task: Any = TaskContext.get()
    with psycopg.connect(
        address_now(database_url), connect_timeout=5, application_name="spark_metrics staging"
    ) as connection:
        copy_lines(connection, attempt, task.partitionId(), task.attemptNumber(), by_table)


def copy_lines(
    connection: psycopg.Connection[Any], attempt: int, part: int, number: int, by_table: dict[str, list[str]]
) -> None:
    """{table: lines} into the staging tables, as try `number` of part `part`; the caller commits."""
    with connection.cursor() as cursor:
        cursor.execute("insert into staging_tasks values (%s, %s, %s)", [attempt, part, number])
        key = f"{attempt}\t{part}\t{number}\t"
        for table, texts in by_table.items():
            columns = ", ".join(("attempt", "part", "try", *TABLES[table]))
            with cursor.copy(f"copy {table} ({columns}) from stdin".encode()) as copy:
                for text in texts:
                    copy.write(key + text[:-1].replace("\n", "\n" + key) + "\n")
