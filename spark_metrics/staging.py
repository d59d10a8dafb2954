"""Stages a micro-batch in Postgres: the JVM sums the records, and the executors copy the sums.

A single record has no row of its own. Records are summed by send, minute and result; the source positions, ids and
recipients' positions of a group of records are packed into bytes in the row of their group. A task copies all its rows
in one transaction under its partition and attempt number, so that exactly one run of a repeated task counts.
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

# The columns of the tables in schemas/tables/03_stream.sql. The columns in _KEY come first in each table.
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

# The column types of the tables that contain bytes. Their rows are copied in Postgres' binary format, because bytes as
# text would be twice as long. The rows of the other tables are lines of text from the JVM.
_TYPES = {
    "staging_ids": ("text", "bytea"),
    "staging_states": ("text", "int4", "text", "text", "text", "bytea", "text"),
}

# The rows of a task by table: lines of text, or tuples of values for the tables in _TYPES.
type Rows = Mapping[str, Sequence[str] | Sequence[tuple[Any, ...]]]

# An input row of a task: _FIELDS texts, each followed by NUL (which no counted text contains), then the column `said`.
# The texts of a group are its kind, topic, source, line of counts and states key. The texts of a further line are
# _LINE, the table and the line. PySpark would pickle its own Row type, and convert bytes to text.
_NUL, _FIELDS = b"\0", 4 + len(_STATES_KEY)

# A problem in addition to transforms.Problem: the record was counted before, so only its position is staged.
REFUSED = "refused"

# For up to this number of records, one core is faster than two, which would have to exchange rows.
SMALL = 5_000

# The kinds of rows. For all kinds except _LINE, the column `said` has the bytes of each record in the group: the
# position (_REFUSED), followed by the problem with its length (_PROBLEM), the id (_ID), the id and a run of recipients'
# positions (_RUN), or the id and a list with its length (_LIST). Separate columns would be collected four times.
_LINE, _REFUSED, _PROBLEM, _ID, _RUN, _LIST = range(6)
_WORD = 8
# The number of 8-byte words of each record before a length.
_WORDS = {_REFUSED: 1, _PROBLEM: 1, _ID: 3, _RUN: 4, _LIST: 3}
_LENGTH = struct.Struct("!i")
# A source position as one number: the partition times _PARTITION, plus the offset. docs/decisions/026 has the limits.
_PARTITION = 2**48


class Staging:
    """Stages batches. One instance keeps the query plans and columns for all batches: creating them takes hundreds of
    calls into the JVM.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Column] = {}
        # The plans that read facts, and the plans that decode records with a Facts object; the latter are freed with
        # their Facts.
        self._plans = PreparedPlans()
        self._plans_by_facts: WeakKeyDictionary[Facts, PreparedPlans] = WeakKeyDictionary()
        # Two threads may plan at the same time: one stages a batch, and the other stages the batch being merged again.
        # Planning changes Spark's configuration, which both share.
        self._planning = threading.Lock()
        # A large value, because the first batch may be large.
        self.last_records = SMALL

    @property
    def small(self) -> bool:
        return self.last_records < SMALL

    def tasks(self, cores: int) -> int:
        """Return the number of tasks that read a batch: one if the last batch was small, because a single task
        exchanges no rows.
        """
        return 1 if self.small else cores

    def files(self, cores: int) -> int:
        """Return the number of tasks that archive a batch while it is staged."""
        return max(1, self.tasks(cores) // 2)

    def facts(self, records: DataFrame, facts: Facts) -> DataFrame:
        """Return Kafka's records as facts, in a frame whose plan is a single node."""
        with self._planning:
            tasks = self._plan_for(records)
            return self._plans_of(facts).frame(("facts", tasks), [records], lambda frame: _decoded(frame, facts, tasks))

    def groups(self, facts: DataFrame) -> DataFrame:
        """Group the records of facts. A record that was counted before has the problem REFUSED.

        The columns are topic, kind, send_id, club_id, type, minute_s, chunk_index (only for records with recipients'
        positions), channel, measure, reason; seen (the number of records), said (the bytes of each record),
        count_total, first_ms, chunk_count; source.
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
        """Return the groups as one column of bytes, which `rows_of` parses."""
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

        Raises Spark's errors, which quote psycopg's.

        Args:
            rows: Facts; or Kafka's records, together with `facts` and without `recipients`.
            facts: Decodes Kafka's records.
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
        """Return the rows to copy, and the groups that are persisted until they are copied."""
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
        # The groups are persisted because they are read twice; otherwise the records would be decoded twice.
        groups = plans.frame(("groups", tasks), [rows], lambda f: grouped(f).coalesce(tasks)).persist()
        return self._plans.frame(("lines", *of_all), [groups, *recipient_rows], lines), groups

    def _plans_of(self, facts: Facts) -> PreparedPlans:
        return self._plans_by_facts.setdefault(facts, PreparedPlans())

    def _plan_for(self, rows: DataFrame) -> int:
        """Configure Spark's planner for a batch of this size, and return the number of tasks."""
        session = rows.sparkSession
        # Without this property, which each job removes, Spark searches the call stack at each step of a plan.
        session.sparkContext.setLocalProperty("callSite.short", "micro-batch")
        tasks = self.tasks(session.sparkContext.defaultParallelism)
        # For few records, interpreting is faster than generating code, which Spark does even for code that it has
        # compiled before.
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
            # Spark does not compile an expression inside an aggregate, so the expression is a column of its own.
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
    # Each partition of a topic would be a task, and more tasks than cores cost more than they gain. Partitions are
    # coalesced before decoding, so that Spark compiles reading, decoding and the first sums together.
    return facts(records.coalesce(tasks))


def _row(kind: Column, name: Column, source: Column, line: Column, states: Sequence[Column], said: Column) -> Column:
    # concat_ws would omit a null, so nulls become empty texts.
    texts = [F.coalesce(text, F.lit("")) for text in (kind.cast("string"), name, source, line, *states)]
    return F.concat(F.concat_ws("\0", *texts, F.lit("")).cast("binary"), F.coalesce(said, F.lit(bytearray())))


def together(wide: Sequence[DataFrame], few: Sequence[DataFrame], tasks: int) -> DataFrame:
    """Return the union of frames, in `tasks` partitions for each frame of `wide`.

    Each task opens a connection. The frames of `few` have very few rows, so they share one partition at the end:
    coalesce() merges neighbouring partitions, and more partitions with few rows would move all groups into one task.
    """
    rows = reduce(DataFrame.unionAll, wide)
    if few:
        rows = rows.unionAll(reduce(DataFrame.unionAll, few).coalesce(1))
    return rows.coalesce(tasks if tasks == 1 else tasks * len(wide))


def _bytes_of(rows: DataFrame) -> RDD[bytes]:
    """Return the values of a frame that has a single column."""
    plain: Any = rows
    context: Any = rows.sparkSession.sparkContext
    binary = getattr(context._jvm, "org.apache.spark.sql.Encoders").BINARY()
    return RDD(getattr(plain._jdf, "as")(binary).toJavaRDD(), context, NoOpSerializer())


def _is_counted() -> Column:
    return F.col("kind") >= _ID


def _has_positions() -> Column:
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
    by_table = rows_of(rows)
    if not by_table:
        return
    task: Any = TaskContext.get()
    with psycopg.connect(
        address_now(database_url), connect_timeout=5, application_name="spark_metrics staging"
    ) as connection:
        copy_rows(connection, attempt, task.partitionId(), task.attemptNumber(), by_table)


def rows_of(rows: Iterable[bytes]) -> Rows:
    """Convert a task's input rows, which `Staging.send` makes, to rows by table."""
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
    # An empty text is a null, because no counted text is empty.
    return send_id, int(chunk_index), channel, status, reason or None


def _spans(places: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Return (partition, first offset, last offset, count) of source positions, for each partition."""
    ordered = np.sort(np.frombuffer(places, ">i8").astype(np.int64))
    partitions = ordered // _PARTITION
    begins = np.flatnonzero(np.r_[True, partitions[1:] > partitions[:-1]])
    ends = np.r_[begins[1:], len(ordered)]
    columns = (partitions[begins], ordered[begins] % _PARTITION, ordered[ends - 1] % _PARTITION, ends - begins)
    return zip(*(column.tolist() for column in columns), strict=True)


def _split_lengths(said: bytes, before: int) -> tuple[bytes, list[str]]:
    """Split the bytes of several records into their first `before` bytes and their texts; each text is preceded by its
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


# The lock prevents a merge of the attempt before the task has ended: rows that a second run staged later would count
# twice.
# guard: metrics.staging_task
_STAGE_TASK = "insert into staging_tasks select attempt, %s, %s from staging_attempts where attempt = %s for key share"
