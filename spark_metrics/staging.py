"""Stages a micro-batch in Postgres: the JVM sums it, the executors send the sums.

A record never becomes a row of its own: records are first summed by send, minute and result; the places, ids and
positions of a group's records are packed into bytes in the same row. A task sends all its rows in one transaction
under its partition and attempt number, so that exactly one run of a repeated task counts.
"""

import struct
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import psycopg
from pyspark import RDD, TaskContext
from pyspark.serializers import NoOpSerializer
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.aws.authentication import address_now
from spark_metrics import recipient_log
from spark_metrics.decode import kind_of
from spark_metrics.prepared import PreparedPlans
from spark_metrics.transforms import Facts, each_count, minute_s, of_count, sums_of
from spark_metrics.views import View

# Columns of schemas/tables/03_stream.sql: the first columns of each table, then the others.
_KEY = {"attempt": "int8", "part": "int4", "try": "int4"}
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
_TEXTS = frozenset({"send_id", "type", "channel", "measure", "status", "reason", "view", "row"})

# Column types of tables with bytes, which are copied in Postgres' binary format: as text they would be twice as long.
# The rows of the other tables are lines from the JVM.
_TYPES = {
    "staging_ids": ("text", "bytea"),
    "staging_states": ("text", "int4", "text", "text", "text", "bytea", "text"),
}

# A task's rows by table: lines of the text format, or values for the tables in _TYPES.
type Rows = Mapping[str, Sequence[str] | Sequence[tuple[Any, ...]]]

# A task's input row: texts, each followed by NUL, which no counted text contains, and then the column `said`.
# A group's texts are its kind, topic and source, its line of counts and the key of its states; a line's are _LINE, the
# table and the line. This form avoids PySpark's Row, which it would pickle, with bytes converted to text.
_NUL, _FIELDS = b"\0", 4 + len(_STATES_KEY)

# In addition to transforms.Problem: a record that was counted before, which adds only its position.
REFUSED = "refused"

# Up to this number of records one core is faster than two that must exchange rows.
SMALL = 5_000

# Bytes of each record in the column `said`: its place, and then, if it is counted, its id, the id and a run of
# positions, or the id and a list preceded by its length; if it is not counted, nothing, or its problem in the form of
# the list. As columns of their own they would be collected four times, and with the partition among the keys the groups
# would be smaller.
_LINE, _REFUSED, _PROBLEM, _ID, _RUN, _LIST = range(6)
_WORD = 8
# Words of each record before a length.
_WORDS = {_REFUSED: 1, _PROBLEM: 1, _ID: 3, _RUN: 4, _LIST: 3}
_LENGTH = struct.Struct("!i")
# A place is one number: the partition times this, plus the offset. docs/decisions/026 has its limits.
_PARTITION = 2**48


class Staging:
    """Created once: every batch uses its plans, and its columns, which take hundreds of calls into the JVM."""

    def __init__(self) -> None:
        self._lines: dict[str, Column] = {}
        # Plans that read facts, and plans by the Facts that decode their records; these are freed with their Facts.
        self._plans = PreparedPlans()
        self._plans_by_facts: WeakKeyDictionary[Facts, PreparedPlans] = WeakKeyDictionary()
        # A batch being merged may have to be staged again while the next one is staged: planning depends on Spark's
        # configuration, which both share.
        self._planning = threading.Lock()
        # The first batch may be large.
        self.last_records = SMALL

    @property
    def small(self) -> bool:
        """Whether the last batch was small."""
        return self.last_records < SMALL

    def tasks(self, cores: int) -> int:
        """Number of tasks that read a batch: one if the last batch was small, since one task exchanges no rows."""
        return 1 if self.small else cores

    def files(self, cores: int) -> int:
        """Number of tasks that archive a batch while it is staged."""
        return max(1, self.tasks(cores) // 2)

    def facts(self, records: DataFrame, facts: Facts) -> DataFrame:
        """Kafka's records as facts, with a plan of a single node."""
        with self._planning:
            tasks = self._plan_for(records)
            return self._plans_of(facts).frame(("facts", tasks), [records], lambda frame: _decoded(frame, facts, tasks))

    def groups(self, facts: DataFrame) -> DataFrame:
        """Group the facts' records; those that were counted before have the problem REFUSED.

        Columns: topic, kind, send_id, club_id, type, minute_s, chunk_index (of records with positions), channel,
        measure, reason; seen (number of records), said (bytes of each record), count_total, first_ms, chunk_count;
        source.
        """
        return (
            facts.select("*", *self._said)
            .select(*self._each)
            .select(*self._of_each)
            .groupBy(*self._keys)
            .agg(*self._sums)
            .select("*", kind_of(F.col("topic")).alias("source"))
        )

    def rows(self, groups: DataFrame) -> DataFrame:
        """Groups in the form that `rows_of` reads: one column of bytes."""
        return groups.select(self._of_group)

    def send(
        self,
        rows: DataFrame,
        database_url: str,
        attempt: int,
        *,
        facts: Facts | None = None,
        views: Sequence[View] = (),
        recipients: bool = False,
    ) -> None:
        """Have the executors copy the groups, the rows of the views and the log of recipients.

        rows: facts; or Kafka's records with the Facts that decode them, and then without the log.

        Errors: those of Spark, with psycopg's inside.
        """
        with self._planning:
            made, groups = self._planned(rows, facts, views, recipients=recipients)
        try:
            _bytes_of(made).foreachPartition(partial(_copy, database_url, attempt))
        finally:
            if groups is not None:
                groups.unpersist()

    def _planned(
        self, rows: DataFrame, facts: Facts | None, views: Sequence[View], *, recipients: bool
    ) -> tuple[DataFrame, DataFrame | None]:
        """The rows to send, and the groups that are persisted meanwhile."""
        tasks = self._plan_for(rows)
        plans = self._plans if facts is None else self._plans_of(facts)
        of_all = (tasks, tuple(views), recipients)

        def grouped(frame: DataFrame) -> DataFrame:
            return self.groups(frame if facts is None else _decoded(frame, facts, tasks))

        def lines(groups: DataFrame, *recipient_rows: DataFrame) -> DataFrame:
            counts = groups.where(_is_counted()).transform(sums_of)
            few = [view.rows_to_stage(counts).select(self._of_line("staging_views")) for view in views]
            wide = [
                each.where(F.col("problem").isNull())
                .transform(recipient_log.rows_to_stage)
                .select(self._of_line("staging_recipients"))
                for each in recipient_rows
            ]
            return together([self.rows(groups), *wide], few, tasks)

        recipient_rows = [rows] if recipients else []
        if not views:
            return plans.frame(
                ("all", *of_all), [rows, *recipient_rows], lambda f, *recipient_rows: lines(grouped(f), *recipient_rows)
            ), None
        # The records are read once, and the groups, which are few, twice.
        groups = plans.frame(("groups", tasks), [rows], lambda f: grouped(f).coalesce(tasks)).persist()
        return self._plans.frame(("lines", *of_all), [groups, *recipient_rows], lines), groups

    def _plans_of(self, facts: Facts) -> PreparedPlans:
        return self._plans_by_facts.setdefault(facts, PreparedPlans())

    def _plan_for(self, rows: DataFrame) -> int:
        """Configure Spark's planner for a batch of this size. Returns the number of tasks."""
        session = rows.sparkSession
        # Each job removes this property, and without it Spark searches the stack for its caller at each step of a plan.
        session.sparkContext.setLocalProperty("callSite.short", "micro-batch")
        tasks = self.tasks(session.sparkContext.defaultParallelism)
        # Spark finds compiled code by its text; generating that text takes longer than interpreting a few records.
        session.conf.set("spark.sql.codegen.wholeStage", tasks > 1)
        session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if tasks > 1 else "NO_CODEGEN")
        return tasks

    @cached_property
    def _said(self) -> list[Column]:
        place = (F.col("partition").cast("long") * _PARTITION + F.col("kafka_offset")).cast("binary")
        record_id, run, listed = F.col("id"), F.col("run"), F.col("listed").cast("binary")
        problem = _line(TABLES["staging_problems"]).cast("binary")
        refused, bad = F.col("problem") == REFUSED, F.col("problem").isNotNull()
        runs, lists = run.isNotNull(), listed.isNotNull()
        kind = F.when(refused, _REFUSED).when(bad, _PROBLEM).when(runs, _RUN).when(lists, _LIST).otherwise(_ID)
        said = (
            F.when(refused, place)
            .when(bad, F.concat(place, _length(problem), problem))
            .when(runs, F.concat(place, record_id, run))
            .when(lists, F.concat(place, record_id, _length(listed), listed))
            .otherwise(F.concat(place, record_id))
        )
        return [kind.alias("kind"), said.alias("said")]

    @cached_property
    def _each(self) -> list[Column]:
        return [*each_count("chunk_index"), F.col("kind"), F.col("said")]

    @cached_property
    def _of_each(self) -> list[Column]:
        begins = F.coalesce("ordinal", F.lit(0)) == 0
        return [
            *of_count(),
            minute_s().alias("minute_s"),
            F.when(_has_positions(), F.col("chunk_index")).alias("chunk_index"),
            F.col("kind"),
            # Spark does not compile expressions inside an aggregate.
            F.when(begins, F.col("said")).alias("said"),
            F.when(begins, 1).otherwise(0).alias("begins"),
        ]

    @cached_property
    def _keys(self) -> list[Column]:
        names = ("topic", "kind", "send_id", "club_id", "type", "minute_s", "chunk_index")
        return list(map(F.col, (*names, "channel", "measure", "reason")))

    @cached_property
    def _sums(self) -> list[Column]:
        return [
            F.sum("begins").alias("seen"),
            F.listagg("said").alias("said"),
            F.sum("count_total").alias("count_total"),
            F.min("at_ms").alias("first_ms"),
            F.max("chunk_count").alias("chunk_count"),
        ]

    @cached_property
    def _of_group(self) -> Column:
        counts = F.when(_is_counted(), _line(TABLES["staging_counts"], records=F.col("seen")))
        named = {"status": F.col("measure")}
        states = [F.when(_has_positions(), named.get(name, F.col(name)).cast("string")) for name in _STATES_KEY]
        return _row(F.col("kind"), F.col("topic"), F.col("source"), counts, states, F.col("said"))

    def _of_line(self, table: str) -> Column:
        if table not in self._lines:
            none, line = F.lit(None).cast("string"), _line(TABLES[table])
            states = [none for _ in _STATES_KEY]
            self._lines[table] = _row(F.lit(_LINE), F.lit(table), none, line, states, none.cast("binary"))
        return self._lines[table]


def _decoded(records: DataFrame, facts: Facts, tasks: int) -> DataFrame:
    # Each partition of a topic would be a task; more tasks than cores cost more than they gain. Coalesce first, so that
    # reading, decoding and the first sums are compiled together.
    return facts(records.coalesce(tasks))


def _row(kind: Column, name: Column, source: Column, line: Column, states: Sequence[Column], said: Column) -> Column:
    # concat_ws would skip a null.
    texts = [F.coalesce(text, F.lit("")) for text in (kind.cast("string"), name, source, line, *states)]
    return F.concat(F.concat_ws("\0", *texts, F.lit("")).cast("binary"), F.coalesce(said, F.lit(bytearray())))


def together(wide: Sequence[DataFrame], few: Sequence[DataFrame], tasks: int) -> DataFrame:
    """The union of frames: each of `wide` has `tasks` partitions, those of `few` have very few rows.

    A task is a connection, so `wide` keep one task each. coalesce() takes partitions in order: `few` must be one
    partition at the end, or a task would get all groups.
    """
    rows = reduce(DataFrame.unionAll, wide)
    if few:
        rows = rows.unionAll(reduce(DataFrame.unionAll, few).coalesce(1))
    return rows.coalesce(tasks if tasks == 1 else tasks * len(wide))


def _bytes_of(rows: DataFrame) -> RDD[bytes]:
    """The values of a frame with a single column."""
    plain: Any = rows
    context: Any = rows.sparkSession.sparkContext
    binary = getattr(context._jvm, "org.apache.spark.sql.Encoders").BINARY()
    return RDD(getattr(plain._jdf, "as")(binary).toJavaRDD(), context, NoOpSerializer())


def _is_counted() -> Column:
    return F.col("kind") >= _ID


def _has_positions() -> Column:
    """Whether the record's bytes include positions."""
    return F.col("kind") >= _RUN


def _length(text: Column) -> Column:
    return F.length(text).cast("binary")


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


def _copy(database_url: str, attempt: int, rows: Iterator[bytes]) -> None:
    """Copy one task's rows in one transaction."""
    by_table = rows_of(rows)
    if not by_table:
        return
    task: Any = TaskContext.get()
    with psycopg.connect(
        address_now(database_url), connect_timeout=5, application_name="spark_metrics staging"
    ) as connection:
        copy_rows(connection, attempt, task.partitionId(), task.attemptNumber(), by_table)


def rows_of(rows: Iterable[bytes]) -> Rows:
    """Converts the rows that `Staging.send` gives a task: `Staging.rows` and further lines."""
    places: defaultdict[str, list[bytes]] = defaultdict(list)
    ids: defaultdict[str, list[bytes]] = defaultdict(list)
    lines: defaultdict[str, list[str]] = defaultdict(list)
    states: list[tuple[Any, ...]] = []
    for row in rows:
        *fields, said = row.split(_NUL, _FIELDS)
        number, name, source, line, *key = (field.decode() for field in fields)
        kind = int(number)
        if line:
            lines["staging_counts" if kind != _LINE else name].append(line)
        if not said:
            continue
        if kind in (_LIST, _PROBLEM):
            begun, texts = _split_lengths(said, _WORD * _WORDS[kind])
        else:
            begun, texts = said, []
        words = np.frombuffer(begun, f"V{_WORD}").reshape(-1, _WORDS[kind])
        places[name].append(words[:, 0].tobytes())
        if kind >= _ID:
            ids[source].append(words[:, 1:3].tobytes())
        if kind == _RUN:
            states.append((*_state(*key), words[:, 3].tobytes(), None))
        elif kind == _LIST:
            states.append((*_state(*key), None, "\n".join(texts)))
        elif kind == _PROBLEM:
            lines["staging_problems"] += texts
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


def _state(send_id: str, chunk_index: str, channel: str, status: str, reason: str) -> tuple[Any, ...]:
    # No counted text is empty.
    return send_id, int(chunk_index), channel, status, reason or None


def _spans(places: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(partition, first offset, last offset, count) of places, for each partition."""
    ordered = np.sort(np.frombuffer(places, ">i8").astype(np.int64))
    partitions = ordered // _PARTITION
    begins = np.flatnonzero(np.r_[True, partitions[1:] > partitions[:-1]])
    ends = np.r_[begins[1:], len(ordered)]
    columns = (partitions[begins], ordered[begins] % _PARTITION, ordered[ends - 1] % _PARTITION, ends - begins)
    return zip(*(column.tolist() for column in columns), strict=True)


def _split_lengths(said: bytes, before: int) -> tuple[bytes, list[str]]:
    """Split the bytes of records of any length: a number of words each, and the text after them, preceded by its
    length.
    """
    begun, texts, at = [], [], 0
    while at < len(said):
        begin = at + before + _LENGTH.size
        begun.append(said[at : at + before])
        (length,) = _LENGTH.unpack_from(said, at + before)
        at = begin + length
        texts.append(said[begin:at].decode())
    return b"".join(begun), texts


def copy_rows(connection: psycopg.Connection[Any], attempt: int, part: int, number: int, by_table: Rows) -> None:
    """Copy a task's rows into the staging tables, as try `number` of part `part`; the caller commits.

    Errors: psycopg.OperationalError, if the attempt is merged already, or a crash of the server emptied the tables.
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


# The lock keeps the attempt from being merged until the task ends: rows that a second run staged later would be counted
# twice.
# guard: metrics.staging_task
_STAGE_TASK = "insert into staging_tasks select attempt, %s, %s from staging_attempts where attempt = %s for key share"
