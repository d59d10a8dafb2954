"""Stages a micro-batch in Postgres: Spark sums the records, and the executors copy the sums.

A single record has no row of its own. Records are summed by send, minute and result; the source positions, ids and
recipients' positions of a group of records are packed into bytes in the row of their group. A task copies all its rows
in one transaction under its partition and attempt number, so that exactly one run of a repeated task counts.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, cast

import numpy as np
import psycopg
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from masscomm.aws.authentication import address_now
from spark_metrics import recipient_log
from spark_metrics.decode import kind_of
from spark_metrics.sources import SOURCES
from spark_metrics.sql import read_sql
from spark_metrics.sums import each_count, minute_s, sums_of
from spark_metrics.views import View

# The columns of the tables in schemas/tables/03_stream.sql. The columns in _KEY come first in each table.
_KEY = {"attempt": "int8", "part": "int4", "try": "int4"}
TABLES = {
    "staging_positions": ("topic", "partition", "first_offset", "last_offset", "records"),
    "staging_problems": ("topic", "partition", "kafka_offset", "source", "schema_id", "problem"),
    "staging_redelivered": ("topic", "partition", "kafka_offset", "source", "record_id"),
    "staging_ids": ("source", "ids"),
    "staging_counts": (
        *("source", "send_id", "club_id", "type", "minute_s", "channel", "measure", "reason"),
        *("count_total", "records", "first_ms", "chunk_count"),
    ),
    "staging_states": ("send_id", "chunk_index", "channel", "status", "reason", "runs", "listed"),
    "staging_views": ("view", "row"),
    "staging_recipients": ("send_id", "club_id", "type", "channel", "status", "reason", "at_ms", "user_ids"),
}

# The column types of the tables that contain bytes. Their rows are copied in Postgres' binary format, because bytes as
# text would be twice as long. The rows of the other tables are lines of text.
_TYPES = {
    "staging_ids": ("text", "bytea"),
    "staging_states": ("text", "int4", "text", "text", "text", "bytea", "text"),
}

# The rows of a task by table: lines of text, or tuples of values for the tables in _TYPES.
type Rows = Mapping[str, Sequence[str] | Sequence[tuple[Any, ...]]]

# A problem in addition to problems.Problem: the record was counted before, so only its position and id are staged.
REFUSED = "refused"

# The kinds of groups. The column `packed` has the bytes of each record in the group: the position, followed by the
# schema id and the problem as a text with its length (_PROBLEM), the id (_REFUSED, _ID), the id and a run of
# recipients' positions (_RUN), or the id and a list with its length (_LIST). Separate columns would be collected four
# times.
_REFUSED, _PROBLEM, _ID, _RUN, _LIST = range(5)
_WORD = 8
# The number of 8-byte words of each record before a length.
_WORDS = {_REFUSED: 3, _PROBLEM: 1, _ID: 3, _RUN: 4, _LIST: 3}
_LENGTH = struct.Struct("!i")
# A source position as one number: the partition times _PARTITION, plus the offset. docs/decisions/026 has the limits.
_PARTITION = 2**48
_KINDS = {topic: source.kind for source in SOURCES for topic in source.topics()}
# The views' rows are staged by tasks of their own, with part numbers above those of all other tasks.
_VIEWS_PART = 10**9


class Staging:
    """Has the executors copy the sums of batches. The columns are prepared, as those of Facts: creating them for each
    batch takes longer than planning it.
    """

    def __init__(self, *, views: Sequence[View] = (), recipients: bool = False) -> None:
        """Prepare the columns.

        Args:
            views: Further tables to stage.
            recipients: Whether to stage the log of recipients.
        """
        self._views = views
        counted = ("topic", "send_id", "club_id", "type", "at_ms", "chunk_count")
        is_first = F.coalesce("ordinal", F.lit(0)) == 0
        self._steps = (
            [F.col("*"), *_packed()],
            [
                *each_count("chunk_index", *(recipient_log.FIELDS if recipients else ())),
                *map(F.col, ("kind", "packed")),
            ],
            [
                *map(F.col, counted),
                *map(F.col, ("count.channel", "count.measure", "count.reason", "count.count_total")),
                minute_s().alias("minute_s"),
                F.when(_has_positions(), F.col("chunk_index")).alias("chunk_index"),
                F.col("kind"),
                # Spark does not compile an expression inside an aggregate, so the expressions are columns of their own.
                F.when(is_first, F.col("packed")).alias("packed"),
                F.when(is_first, 1).otherwise(0).alias("is_first"),
                (recipient_log.logged() if recipients else F.lit(None).cast("string")).alias("logged"),
            ],
        )
        self._keys = [F.col(name) for name in _GROUP]
        self._sums = [
            F.sum("is_first").alias("seen"),
            F.listagg("packed").alias("packed"),
            F.listagg("logged", F.lit("\n")).alias("logged"),
            F.sum("count_total").alias("count_total"),
            F.min("at_ms").alias("first_ms"),
            F.max("chunk_count").alias("chunk_count"),
        ]

    def groups(self, facts: DataFrame) -> DataFrame:
        """Group the records of facts. A record that was counted before has the problem REFUSED.

        The columns are topic, kind, send_id, club_id, type, minute_s, chunk_index (only for records with recipients'
        positions), channel, measure, reason; seen (the number of records), packed (the bytes of each record), logged
        (the lines of recipient_log.logged), count_total, first_ms, chunk_count.
        """
        for columns in self._steps:
            facts = facts.select(*columns)
        return facts.groupBy(*self._keys).agg(*self._sums)

    def copy(self, facts: DataFrame, database_url: str, attempt: int) -> None:
        """Copy the groups of records and the rows of the views to the staging tables.

        Raises Spark's errors, which quote psycopg's.
        """
        groups = self.groups(facts)
        if not self._views:
            groups.foreachPartition(partial(_copy, rows_of, database_url, attempt, 0))
            return
        # The groups are read twice; otherwise the records would be decoded again.
        groups.persist()
        try:
            groups.foreachPartition(partial(_copy, rows_of, database_url, attempt, 0))
            counts = groups.where(F.col("kind") >= _ID).withColumn("source", kind_of(F.col("topic"))).transform(sums_of)
            viewed = reduce(DataFrame.unionAll, [view.rows_to_stage(counts) for view in self._views])
            # A task opens a connection, and the views' rows are few.
            viewed.coalesce(1).foreachPartition(partial(_copy, _view_rows, database_url, attempt, _VIEWS_PART))
        finally:
            groups.unpersist()


_GROUP = ("topic", "kind", "send_id", "club_id", "type", "minute_s", "chunk_index", "channel", "measure", "reason")


def _packed() -> list[Column]:
    """Return the kind and the bytes of each record."""
    place = (F.col("partition").cast("long") * _PARTITION + F.col("kafka_offset")).cast("binary")
    record_id, run, listed = F.col("id"), F.col("run"), F.col("listed").cast("binary")
    problem = F.concat_ws("\t", F.coalesce(F.col("schema_id").cast("string"), F.lit(_NULL)), "problem").cast("binary")
    refused, bad = F.col("problem") == REFUSED, F.col("problem").isNotNull()
    runs, lists = run.isNotNull(), listed.isNotNull()
    kind = F.when(refused, _REFUSED).when(bad, _PROBLEM).when(runs, _RUN).when(lists, _LIST).otherwise(_ID)
    packed = (
        F.when(refused, F.concat(place, record_id))
        .when(bad, F.concat(place, _length(problem), problem))
        .when(runs, F.concat(place, record_id, run))
        .when(lists, F.concat(place, record_id, _length(listed), listed))
        .otherwise(F.concat(place, record_id))
    )
    return [kind.alias("kind"), packed.alias("packed")]


def _has_positions() -> Column:
    return F.col("kind") >= _RUN


def _length(text: Column) -> Column:
    return F.length(text).cast("binary")


# A null in COPY's text form, and the characters that it escapes.
_NULL = "\\N"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED = re.compile(r"[\\\t\n\r]")


def _line(*values: object) -> str:
    """Return a row in COPY's text form."""
    texts = [_NULL if value is None else str(value) for value in values]
    if any(map(_ESCAPED.search, (value for value in values if isinstance(value, str)))):
        texts = [
            _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text) if isinstance(value, str) else text
            for text, value in zip(texts, values, strict=True)
        ]
    return "\t".join(texts)


def _copy(
    of: Callable[[Iterable[Row]], Rows], database_url: str, attempt: int, first_part: int, rows: Iterable[Row]
) -> None:
    by_table = of(rows)
    if not by_table:
        return
    task: Any = TaskContext.get()
    with psycopg.connect(
        address_now(database_url), connect_timeout=5, application_name="spark_metrics staging"
    ) as connection:
        copy_rows(connection, attempt, first_part + task.partitionId(), task.attemptNumber(), by_table)


def _view_rows(rows: Iterable[Row]) -> Rows:
    lines = [_line(view, row) for view, row in rows]
    return {"staging_views": lines} if lines else {}


def rows_of(groups: Iterable[Row]) -> Rows:
    """Convert a task's groups to rows by table."""
    places: defaultdict[str, list[bytes]] = defaultdict(list)
    ids: defaultdict[str, list[bytes]] = defaultdict(list)
    lines: defaultdict[str, list[str]] = defaultdict(list)
    states: list[tuple[Any, ...]] = []
    for topic, kind, send_id, club_id, category, minute, chunk, channel, measure, reason, *sums in groups:
        seen, packed, logged, count_total, first_ms, chunk_count = sums
        if kind >= _ID:
            counted = (send_id, club_id, category, minute, channel, measure, reason, count_total)
            lines["staging_counts"].append(_line(_KINDS[topic], *counted, seen, first_ms, chunk_count))
        if logged is not None:
            begin = _line(send_id, club_id, category, channel, measure, reason)
            lines["staging_recipients"] += [f"{begin}\t{text}" for text in logged.split("\n")]
        if packed is None:
            continue
        if kind in (_LIST, _PROBLEM):
            begun, texts = _split_lengths(packed, _WORD * _WORDS[kind])
        else:
            begun, texts = packed, []
        words = np.frombuffer(begun, f"V{_WORD}").reshape(-1, _WORDS[kind])
        places[topic].append(words[:, 0].tobytes())
        if kind == _REFUSED:
            for place, record_id in zip(_numbers(words[:, 0]), words[:, 1:3], strict=True):
                lines["staging_redelivered"].append(f"{_position(topic, place)}\t{record_id.tobytes().hex()}")
        if kind >= _ID:
            ids[_KINDS[topic]].append(words[:, 1:3].tobytes())
        if kind == _RUN:
            states.append((send_id, chunk, channel, measure, reason, words[:, 3].tobytes(), None))
        elif kind == _LIST:
            states.append((send_id, chunk, channel, measure, reason, None, "\n".join(texts)))
        elif kind == _PROBLEM:
            for place, text in zip(_numbers(words[:, 0]), texts, strict=True):
                lines["staging_problems"].append(f"{_position(topic, place)}\t{text}")
    if places:
        lines["staging_positions"] = [
            f"{topic}\t{partition}\t{first}\t{last}\t{records}"
            for topic, some in places.items()
            for partition, first, last, records in _spans(b"".join(some))
        ]
    values = {
        "staging_ids": [(source, b"".join(some)) for source, some in ids.items()],
        "staging_states": states,
    }
    return lines | {table: some for table, some in values.items() if some}


def _numbers(words: np.ndarray[Any, Any]) -> list[int]:
    numbers: list[int] = np.frombuffer(words.tobytes(), ">i8").tolist()
    return numbers


def _position(topic: str, place: int) -> str:
    """Return the columns topic, partition, kafka_offset and source in COPY's text form."""
    return f"{topic}\t{place // _PARTITION}\t{place % _PARTITION}\t{_KINDS[topic]}"


def _spans(places: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Return (partition, first offset, last offset, count) of source positions, for each partition."""
    ordered = np.sort(np.frombuffer(places, ">i8").astype(np.int64))
    partitions = ordered // _PARTITION
    begins = np.flatnonzero(np.r_[True, partitions[1:] > partitions[:-1]])
    ends = np.r_[begins[1:], len(ordered)]
    columns = (partitions[begins], ordered[begins] % _PARTITION, ordered[ends - 1] % _PARTITION, ends - begins)
    return zip(*(column.tolist() for column in columns), strict=True)


def _split_lengths(packed: bytes, before: int) -> tuple[bytes, list[str]]:
    """Split the bytes of several records into their first `before` bytes and their texts; each text is preceded by its
    length.
    """
    begun, texts, at = [], [], 0
    while at < len(packed):
        begin = at + before + _LENGTH.size
        begun.append(packed[at : at + before])
        (length,) = _LENGTH.unpack_from(packed, at + before)
        at = begin + length
        texts.append(packed[begin:at].decode())
    return b"".join(begun), texts


def copy_rows(connection: psycopg.Connection[Any], attempt: int, part: int, number: int, by_table: Rows) -> None:
    """Copy a task's rows into the staging tables, as run `number` of task `part`. The caller commits.

    Raises psycopg.OperationalError if the attempt was merged, or if a crash of the server emptied the tables.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STAGE_TASK, [part, number, attempt])
        if not cursor.rowcount:
            raise psycopg.OperationalError(f"attempt {attempt} is not open any more")
        for table, rows in by_table.items():
            columns, types = ", ".join((*_KEY, *TABLES[table])), _TYPES.get(table)
            form = "binary" if types else "text"
            with cursor.copy(f"copy {table} ({columns}) from stdin (format {form})".encode()) as copy:
                if types:
                    copy.set_types((*_KEY.values(), *types))
                    for row in rows:
                        copy.write_row((attempt, part, number, *row))
                else:
                    key = f"{attempt}\t{part}\t{number}\t"
                    copy.write(key + f"\n{key}".join(cast("Sequence[str]", rows)) + "\n")


_STAGE_TASK = read_sql("stage_task")  # guard: metrics.staging_task
