"""A micro-batch on its way to Postgres: summed by the JVM, sent by the executors.

A record is never a row of its own: what is counted is summed first, by the send, minute, result and partition it stands
in, and its id and positions become bytes beside the sum. A task sends all its lines in one transaction under its
partition and attempt number, so that of a task that ran twice one run counts, whole.
"""

import struct
from array import array
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
_STATES_KEY = TABLES["staging_states"][:-2]
_TEXTS = frozenset({"send_id", "type", "channel", "measure", "status", "reason", "listed", "view", "row"})

# What a task is given: of a group of records all but the last two, else those two alone.
_SENT = (
    *("topic", "partition", "source", "first_offset", "last_offset", "seen"),
    *("schema_id", "problem", "kind", "said", "counts", "states", "table", "line"),
)
type Sent = Sequence[Any]


# Beside the words of transforms.Problem: a record that was counted before has been seen, and adds nothing.
REFUSED = "refused"

# Records that one core has counted before two have agreed on who counts which.
SMALL = 5_000

# What the bytes in `said` are, a record: its offset (it is not counted), its id, the id and a run of positions, or the
# id and a list with its length before it. In columns of their own they would be collected four times over.
_OFFSET, _ID, _RUN, _LIST = range(4)
_ID_BYTES = 16
_LENGTH = struct.Struct("!i")


class Staging:
    """Made once: hundreds of calls into the JVM build the columns, and every batch uses them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Column]] = {}
        # The first batch may have much to catch up with.
        self.last_records = SMALL

    @property
    def small(self) -> bool:
        """Whether the last batch was."""
        return self.last_records < SMALL

    def tasks(self, cores: int) -> int:
        """How many tasks are to read a batch: one where the last batch was small, since nothing is exchanged then."""
        return 1 if self.small else cores

    def files(self, cores: int) -> int:
        """How many tasks are to archive a batch while it is staged."""
        return max(1, self.tasks(cores) // 2)

    def groups(self, facts: DataFrame) -> DataFrame:
        """Facts to groups of records; those that were counted before have the problem REFUSED.

        Columns: topic, partition, source, problem and schema_id (of records that are not counted), kind, send_id,
        club_id, type, minute_s, chunk_index, channel, measure, reason; first_offset, last_offset, seen (records), said
        (of each, as its kind says), count_total, first_ms, chunk_count.
        """
        return (
            facts.select("*", *self._said)
            .select(*self._each)
            .select(*self._of_each)
            .groupBy(*self._keys)
            .agg(*self._sums)
        )

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
            groups = (leaf(groups) if self.small else groups).persist()
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
    def _said(self) -> list[Column]:
        record_id, listed = F.col("id"), F.col("listed").cast("binary")
        kinds = (
            (F.col("listed").isNotNull(), _LIST, F.concat(record_id, F.length(listed).cast("binary"), listed)),
            (F.col("run").isNotNull(), _RUN, F.concat(record_id, F.col("run"))),
            (F.col("problem").isNotNull(), _OFFSET, F.col("kafka_offset").cast("binary")),
        )
        kind, said = F.lit(_ID), record_id
        for condition, number, made in kinds:
            kind, said = F.when(condition, number).otherwise(kind), F.when(condition, made).otherwise(said)
        return [kind.alias("kind"), said.alias("said")]

    @cached_property
    def _each(self) -> list[Column]:
        return [*each_count("chunk_index"), F.col("kind"), F.col("said")]

    @cached_property
    def _of_each(self) -> list[Column]:
        begins = F.coalesce("ordinal", F.lit(0)) == 0
        return [
            *of_count("chunk_index"),
            minute_s().alias("minute_s"),
            F.col("kind"),
            # What stands in an aggregate itself is interpreted.
            F.when(begins, F.col("said")).alias("said"),
            F.when(begins, 1).otherwise(0).alias("begins"),
        ]

    @cached_property
    def _keys(self) -> list[Column]:
        return [
            *map(F.col, ("topic", "partition", "source", "problem")),
            F.when(F.col("problem").isNotNull(), F.col("schema_id")).alias("schema_id"),
            *map(F.col, ("kind", "send_id", "club_id", "type", "minute_s", "chunk_index")),
            *map(F.col, ("channel", "measure", "reason")),
        ]

    @cached_property
    def _sums(self) -> list[Column]:
        return [
            F.min("kafka_offset").alias("first_offset"),
            F.max("kafka_offset").alias("last_offset"),
            F.sum("begins").alias("seen"),
            F.listagg("said").alias("said"),
            F.sum("count_total").alias("count_total"),
            F.min("at_ms").alias("first_ms"),
            F.max("chunk_count").alias("chunk_count"),
        ]

    @cached_property
    def _of_group(self) -> list[Column]:
        told = F.col("kind").isin(_RUN, _LIST)
        made = {
            "counts": F.when(F.col("problem").isNull(), _line(TABLES["staging_counts"], records=F.col("seen"))),
            "states": F.when(told, _line(_STATES_KEY, status=F.col("measure"))),
            "table": F.lit(None).cast("string"),
            "line": F.lit(None).cast("string"),
        }
        return [made[name].alias(name) if name in made else F.col(name) for name in _SENT]

    def _of_line(self, table: str) -> list[Column]:
        if table not in self._lines:
            made = {"table": F.lit(table), "line": _line(TABLES[table])}
            self._lines[table] = [made.get(name, F.lit(None)).alias(name) for name in _SENT]
        return self._lines[table]


def leaf(frame: DataFrame) -> DataFrame:
    """The same rows, in one task, of a plan that is a leaf.

    What is built on a frame is analysed with all that lies below it, and compared with all that is kept: of a small
    batch that takes longer than its records do. A row is copied once more for it.
    """
    plain: Any = frame
    session: Any = plain.sparkSession._jsparkSession
    rows = session.internalCreateDataFrame(plain._jdf.queryExecution().toRdd(), plain._jdf.schema(), False)
    return type(frame)(rows, frame.sparkSession).coalesce(1)


def _line(columns: Sequence[str], **named: Column) -> Column:
    fields = [_escaped(name, named.get(name, F.col(name))) for name in columns]
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
        topic, partition, source, first, last, seen, schema_id, problem, kind, said, counts, states = group
        place = places.get((topic, partition))
        if place:
            first, last, seen = min(first, place[0]), max(last, place[1]), seen + place[2]
        places[topic, partition] = first, last, seen
        if counts:
            lines["staging_counts"].append(counts)
        if not said:
            continue
        if kind == _RUN:
            joined, runs = _runs(said)
            ids[source].append(joined)
            lines["staging_states"].append(f"{states}\t\\\\x{runs.hex()}\t\\N")
        elif kind == _LIST:
            some, listed = _lists(said)
            ids[source] += some
            lines["staging_states"].append(f"{states}\t\\N\t{escaped(listed)}")
        elif kind == _ID:
            ids[source].append(said)
        elif problem != REFUSED:
            known = "\\N" if schema_id is None else schema_id
            lines["staging_problems"] += (
                f"{topic}\t{partition}\t{offset}\t{source}\t{known}\t{problem}"
                for (offset,) in struct.iter_unpack("!q", said)
            )
    if places:
        lines["staging_positions"] = [
            f"{topic}\t{partition}\t{first}\t{last}\t{seen}"
            for (topic, partition), (first, last, seen) in places.items()
        ]
    if ids:
        lines["staging_ids"] = [f"{source}\t\\\\x{b''.join(some).hex()}" for source, some in ids.items()]
    return dict(lines)


def _runs(said: bytes) -> tuple[bytes, bytes]:
    """The ids, and the runs: of each record three times eight bytes, taken apart without an object a record."""
    words = array("Q", said)
    ids = array("Q", bytes(len(said) // 3 * 2))
    ids[::2], ids[1::2] = words[::3], words[1::3]
    return ids.tobytes(), words[2::3].tobytes()


def _lists(said: bytes) -> tuple[list[bytes], str]:
    """The ids, and what is told of positions, a line a record."""
    ids, listed, at = [], [], 0
    while at < len(said):
        ids.append(said[at : at + _ID_BYTES])
        begin = at + _ID_BYTES + _LENGTH.size
        (length,) = _LENGTH.unpack_from(said, begin - _LENGTH.size)
        at = begin + length
        listed.append(said[begin:at].decode())
    return ids, "\n".join(listed)


def escaped(text: str) -> str:
    """A text as a field of Postgres' text format of COPY."""
    for plain, letter in (("\\", "\\"), ("\t", "t"), ("\n", "n"), ("\r", "r")):
        text = text.replace(plain, "\\" + letter)
    return text


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
