"""Transforms decoded records to facts (one row per record), facts to one row per record and measure, and these to
sums.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.domain.categories import categories
from masscomm.domain.limits import END_OF_TIME_MS, LONGEST_TEXT, MAX_CHANNELS
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from spark_metrics import identifiers
from spark_metrics.decode import Writers, decoded, origin, read_as_functions, wire_header
from spark_metrics.states import RUN

# Matches texts joined by NUL if one of them is empty or too long.
_EMPTY_OR_LONG = rf"\x00\x00|\A\x00|\x00\z|[^\x00]{{{LONGEST_TEXT + 1}}}"
COUNTS = "array<struct<channel: string, measure: string, reason: string, count_total: long>>"


class Problem(StrEnum):
    """The reason why a record is not counted."""

    UNDECODABLE = "undecodable"  # no value, no header, not decodable with its schema, or a text that is not UTF-8
    UNKNOWN_SCHEMA = "unknown_schema"  # the registry has no such Avro schema
    BAD_POSITION = "bad_position"  # a replayed send without an id, with an invalid original position in its headers
    BAD_ID = "bad_id"  # a derived record whose id is no UUID
    BAD_TEXT = "bad_text"  # a text that is empty, longer than 200 characters, or contains a NUL
    TOO_MANY_CHANNELS = "too_many_channels"  # a send with more than 16 channels
    BAD_COUNT = "bad_count"  # a count below 0
    BAD_TIMESTAMP = "bad_timestamp"  # a timestamp before 1970
    FAR_FUTURE = "far_future"  # a timestamp long after the record's production, or after the last supported date
    UNSTORABLE = "unstorable"  # Postgres rejects the record's counts (a constraint, a range)
    # temporary: the schema is looked up, then the record is counted or becomes unknown_schema
    NOT_LEARNED = "not_learned"


class Facts:
    """The function `facts` with prepared columns, for many batches: creating the columns takes a thousand calls into
    the JVM.
    """

    def __init__(
        self,
        *,
        writers: Writers,
        far_future_ms: int,
        recipients: bool = False,
        channels: str | None = None,
        strict: bool = True,
    ) -> None:
        beside = [] if channels is None else [channels]
        self._steps = (
            wire_header(writers, beside),
            decoded(writers, recipients=recipients, beside=beside, strict=strict),
            *([read_as_functions(recipients=recipients, beside=beside)] if strict else []),
            _with_send_id(),
            _with_channels(channels),
            _facts(recipients=recipients),
            [F.col("*"), identifiers.uuid_bytes(F.col("record_id")).alias("id")],
            _with_problem(far_future_ms, recipients=recipients),
        )

    def __call__(self, records: DataFrame) -> DataFrame:
        for columns in self._steps:
            records = records.select(*columns)
        return records


def facts(
    records: DataFrame,
    *,
    writers: Writers,
    far_future_ms: int,
    recipients: bool = False,
    channels: str | None = None,
    strict: bool = True,
) -> DataFrame:
    """Return the facts of Kafka's records: one row per record, also for records that cannot be counted.

    The columns are topic, partition, kafka_offset, timestamp_ms, source, schema_id, send_id, record_id, id (the 16
    bytes of record_id), club_id, type, at_ms, chunk_index, chunk_count, counts (channel, measure, reason, count_total),
    run and listed (see spark_metrics.states), problem, and with `recipients` user_ids and result_index. If a row has a
    problem, only its position and problem are valid.

    No expression contains a lambda (transform, filter, exists): Spark would interpret it for each record, and could not
    compile the operator that contains it.

    Args:
        channels: The column with the channels that were counted for a send before; null for a new send.
        strict: Whether a value that the functions' decoder rejects is undecodable.
    """
    return Facts(writers=writers, far_future_ms=far_future_ms, recipients=recipients, channels=channels, strict=strict)(
        records
    )


def _with_send_id() -> list[Column]:
    send = F.col("send")
    send_id = F.when(
        send["type"].isNotNull(),
        F.coalesce(F.nullif(send["send_id"], F.lit("")), identifiers.uuid5(origin())),
    )
    return [
        F.col("*"),
        F.coalesce(send_id, F.col("delivery")["send_id"], F.col("outcome")["send_id"]).alias("send_id"),
    ]


def _with_channels(before: str | None) -> list[Column]:
    send = F.col("send")
    resolved = resolved_channels(send["type"], send["channels"])
    if before is not None:
        resolved = F.coalesce(before, resolved)
    return [F.col("*"), F.when(F.col("source") == "send", resolved).alias("channels")]


_PLACED = ("topic", "partition", "kafka_offset", "timestamp_ms", "source", "schema_id")
_FOUND = (
    *("send_id", "record_id", "id", "club_id", "type", "at_ms", "chunk_index", "chunk_count"),
    *("counts", "run", "listed"),
)
_OF_RECIPIENTS = ("user_ids", "result_index")


def _facts(*, recipients: bool) -> list[Column]:
    """Return the columns of all three sources, and `counts`: an array of {channel, measure, reason, count_total}."""
    send, delivery, outcome = F.col("send"), F.col("delivery"), F.col("outcome")
    return [
        *map(F.col, _PLACED),
        # The optimizer would push a condition on `problem` below these columns, and so repeat each of their
        # expressions, decoding included. A nondeterministic expression prevents this.
        (F.col("known") & (F.spark_partition_id() >= 0)).alias("known"),
        F.size(send["channels"]).alias("channels_asked"),
        F.col("send_id"),
        F.when(F.col("source") == "send", identifiers.chunk_id(F.col("send_id"), send["chunk_index"]))
        .otherwise(F.coalesce(delivery["record_id"], outcome["record_id"]))
        .alias("record_id"),
        F.coalesce(send["club_id"], delivery["club_id"], outcome["club_id"]).alias("club_id"),
        F.coalesce(send["type"], delivery["type"], outcome["type"]).alias("type"),
        F.coalesce(send["timestamp"], delivery["built_at"], outcome["timestamp"]).alias("at_ms"),
        F.coalesce(send["chunk_index"], outcome["chunk_index"]).alias("chunk_index"),
        send["chunk_count"].alias("chunk_count"),
        F.when(F.col("source") == "send", requested(F.col("channels"), send["to_users"]))
        .when(F.col("source") == "delivery", queued(delivery["channel"], delivery["positions"], delivery["waits"]))
        .otherwise(decided(outcome["channel"], outcome["results"]))
        .alias("counts"),
        F.when(_is_run(outcome), run_of(outcome["positions"])).alias("run"),
        F.when((F.size(outcome["results"]) > 0) & ~_is_run(outcome), listed(outcome)).alias("listed"),
        *([outcome[name].alias(name) for name in _OF_RECIPIENTS] if recipients else []),
    ]


def _is_run(outcome: Column) -> Column:
    """Return whether an outcome has one result for consecutive positions, as nearly all small ones have. Never null."""
    positions, index = outcome["positions"], outcome["result_index"]
    first, n = F.try_element_at(positions, F.lit(1)), F.size(positions)
    return F.coalesce(
        (F.size(outcome["results"]) == 1)
        & (F.size(index) == n)
        & (F.array_min(index) == 0)
        & (F.array_max(index) == 0)
        & (first >= 0)
        & (first.cast("long") + n <= 2**31)
        & ((n == 1) | (positions == F.sequence(first, first + n - 1))),
        F.lit(False),
    )


def run_of(positions: Column) -> Column:
    return (F.try_element_at(positions, F.lit(1)).cast("long") * RUN + F.size(positions)).cast("binary")


def listed(outcome: Column) -> Column:
    """Return the result of each position as a line of JSON (spark_metrics.states)."""
    results = outcome["results"]
    return F.to_json(
        F.struct(
            outcome["positions"].alias("positions"),
            outcome["result_index"].alias("index"),
            results["status"].alias("statuses"),
            results["reason"].alias("reasons"),
        ),
        {"ignoreNullFields": "false"},
    )


def resolved_channels(category: Column, asked: Column) -> Column:
    """Return the same channels as masscomm.domain.categories.resolve_channels."""
    known = categories()
    default = F.array(*[F.lit(channel) for channel in known["default"].channels])
    listed = F.create_map(
        *[
            column
            for name, entry in known.items()
            for column in (F.lit(name), F.array(*[F.lit(channel) for channel in entry.channels]))
        ]
    )
    own = F.coalesce(F.try_element_at(listed, category), default)
    return F.when(F.size(asked) > 0, F.array_distinct(asked)).otherwise(own)


def _counts(channel: Column, measure: Column, reason: Column, count: Column) -> Column:
    """Combine arrays of equal length to an array of counts."""
    return F.arrays_zip(channel, measure, reason, count.cast("array<long>")).cast(COUNTS)


def requested(channels: Column, to_users: Column) -> Column:
    """Return the number of distinct users on each channel and, if users are repeated, the number of duplicates."""
    distinct = F.size(F.array_distinct(to_users))
    again = F.size(to_users) - distinct
    n = F.size(channels)

    def of(measure: str, count: Column) -> Column:
        none = F.array_repeat(F.lit(None).cast("string"), n)
        return _counts(channels, F.array_repeat(F.lit(measure), n), none, F.array_repeat(count, n))

    return F.when(again > 0, F.concat(of(REQUESTED, distinct), of(DUPLICATE, again))).otherwise(of(REQUESTED, distinct))


def queued(channel: Column, positions: Column, waits: Column) -> Column:
    """Return the number of recipients of a delivery record; 0 for a delayed record, whose recipients were counted
    before the delay.
    """
    none = F.lit(None).cast("string")
    counts = _counts(F.array(channel), F.array(F.lit(QUEUED)), F.array(none), F.array(F.size(positions)))
    return F.when(waits == 0, counts).otherwise(F.array().cast(COUNTS))


def decided(channel: Column, results: Column) -> Column:
    """Return the count of each result of an outcome record; the status is the measure."""
    channels = F.array_repeat(channel, F.size(results))
    several = _counts(channels, results["status"], results["reason"], results["count"])
    # Nearly every outcome has one result, for which zipping arrays would take as long as decoding the record.
    only = F.try_element_at(results, F.lit(1))
    one = F.struct(
        channel.alias("channel"),
        only["status"].alias("measure"),
        only["reason"].alias("reason"),
        only["count"].cast("long").alias("count_total"),
    )
    return F.when(F.size(results) == 1, F.array(one)).otherwise(several)


def _with_problem(far_future_ms: int, *, recipients: bool) -> list[Column]:
    """Return the columns of facts with `problem`: the reason why the record cannot be counted, or null."""
    counts = F.col("counts")
    first, several = F.try_element_at(counts, F.lit(1)), F.size(counts) > 1

    def each(of_several: Callable[[Column], Column], of_one: Callable[[Column], Column]) -> Column:
        """Return whether the condition is true for every non-null text of the counts."""
        names = ("channel", "measure", "reason")
        found = [
            F.when(several, of_several(counts[name])).otherwise(F.coalesce(of_one(first[name]), F.lit(True)))
            for name in names
        ]
        return reduce(Column.__and__, found)

    storable = _storable(F.col("type")) & _storable(F.col("send_id")) & each(_all_storable, _storable)
    # Avro's decoder does not check that texts are UTF-8.
    utf8 = (
        F.is_valid_utf8(F.col("type"))
        & F.is_valid_utf8(F.col("send_id"))
        & each(lambda texts: F.is_valid_utf8(_joined(texts)), F.is_valid_utf8)
    )
    least = F.when(several, F.array_min(counts["count_total"])).otherwise(first["count_total"])
    problem = (
        F.when(F.col("schema_id").isNull(), Problem.UNDECODABLE)
        .when(~F.col("known"), Problem.NOT_LEARNED)
        .when(F.col("type").isNull(), Problem.UNDECODABLE)
        .when(F.col("send_id").isNull(), Problem.BAD_POSITION)
        .when(~utf8, Problem.UNDECODABLE)
        .when(F.col("record_id").isNotNull() & F.col("id").isNull(), Problem.BAD_ID)
        .when(~storable, Problem.BAD_TEXT)
        .when(F.col("channels_asked") > MAX_CHANNELS, Problem.TOO_MANY_CHANNELS)
        .when(least < 0, Problem.BAD_COUNT)
        .when(F.col("at_ms") < 0, Problem.BAD_TIMESTAMP)
        # A subtraction from at_ms could overflow, because at_ms may be any 64-bit integer.
        .when(F.col("at_ms") > F.col("timestamp_ms") + far_future_ms, Problem.FAR_FUTURE)
        .when(F.col("at_ms") >= END_OF_TIME_MS, Problem.FAR_FUTURE)
    )
    beside = _OF_RECIPIENTS if recipients else ()
    return [*map(F.col, (*_PLACED, *_FOUND, *beside)), problem.alias("problem")]


def _storable(text: Column) -> Column:
    """Return whether Postgres can store the text, also in an index: it contains no NUL and is not too long."""
    # The length in bytes costs nothing and is never below the number of characters, which is counted only if the former
    # is too large.
    length = F.octet_length(text).between(1, LONGEST_TEXT) | F.length(text).between(1, LONGEST_TEXT)
    return length & ~F.contains(text, F.lit("\0"))


def _all_storable(texts: Column) -> Column:
    """Return whether each text of an array is null or storable.

    The texts are joined by NUL. If no text contains NUL, the result has exactly the NULs of the join.
    """
    joined = _joined(texts)
    of_theirs = F.length(joined) - F.length(F.replace(joined, F.lit("\0"), F.lit(""))) - F.size(texts) + 1
    return (of_theirs == 0) & ~joined.rlike(_EMPTY_OR_LONG)


def _joined(texts: Column) -> Column:
    """Return an array's texts joined by NUL, so that invalid bytes at the end of one text cannot complete a character
    in the next.
    """
    return F.array_join(texts, "\0", "null")


def exploded(facts: DataFrame) -> DataFrame:
    """Return facts as one row per count, and at least one row per record, so that no source position is lost.

    The columns are topic, partition, kafka_offset, ordinal (of the row in its record), source, schema_id, problem,
    record_id, send_id, club_id, type, at_ms, chunk_count, channel, measure, reason, count_total. A record with a
    problem has one row, in which all columns after `problem` are null. A record without recipients has one row without
    a measure.
    """
    return facts.select(*each_count()).select(*of_count())


def each_count(*more: str) -> list[Column]:
    """Return the columns of the first select in `exploded`: one row per count.

    Args:
        more: Further columns of the facts in each row.
    """
    counted = F.when(F.col("problem").isNull() & (F.size("counts") > 0), F.col("counts"))
    return [
        *map(F.col, ("topic", "partition", "kafka_offset", "source", "schema_id", "problem")),
        *[
            F.when(F.col("problem").isNull(), F.col(name)).alias(name)
            for name in ("record_id", "send_id", "club_id", "type", "at_ms", "chunk_count", *more)
        ],
        # The optimizer would push a filter below posexplode, and so decode each record twice.
        F.posexplode_outer(counted).alias("ordinal", "count"),
    ]


def of_count() -> list[Column]:
    """Return the columns of the second select in `exploded`, after each_count."""
    return [
        *map(F.col, ("topic", "partition", "kafka_offset")),
        F.coalesce("ordinal", F.lit(0)).alias("ordinal"),
        *map(F.col, ("source", "schema_id", "problem")),
        *map(F.col, ("record_id", "send_id", "club_id", "type", "at_ms", "chunk_count")),
        *map(F.col, ("count.channel", "count.measure", "count.reason", "count.count_total")),
    ]


def minute_s() -> Column:
    """Return the minute in which a record counts, in seconds since the epoch."""
    return F.expr("at_ms div 60000 * 60")


_SUM_KEYS = ("source", "send_id", "club_id", "type", "minute_s", "channel", "measure", "reason")


def sums(rows: DataFrame) -> DataFrame:
    """Sum the rows of `exploded` for countable records, to one row per send, minute, channel, measure and reason.

    The columns are source, send_id, club_id, type, minute_s (seconds since the epoch), channel, measure, reason,
    count_total, records (the number of records whose first row is in this sum), first_ms (the earliest timestamp),
    chunk_count.
    """
    begins = F.when(F.col("ordinal") == 0, 1).otherwise(0)
    return sums_of(
        rows.select("*", minute_s().alias("minute_s"), begins.alias("seen"), F.col("at_ms").alias("first_ms"))
    )


def sums_of(groups: DataFrame) -> DataFrame:
    """Sum groups of records in the same way as `sums`; the column `seen` has the number of records in a group."""
    return groups.groupBy(*_SUM_KEYS).agg(
        F.sum("count_total").alias("count_total"),
        F.sum("seen").alias("records"),
        F.min("first_ms").alias("first_ms"),
        F.max("chunk_count").alias("chunk_count"),
    )


def states(facts: DataFrame) -> DataFrame:
    """Return the results of countable outcome records by recipients' positions: one row per chunk and channel.

    The columns are send_id, chunk_index, channel, and `told`: an array of {status, reason, runs, listed} (see
    spark_metrics.states).
    """
    return (
        facts.where((F.col("source") == "outcome") & (F.size("counts") > 0))
        .select("send_id", "chunk_index", F.col("counts")[0].alias("c"), "run", "listed")
        .groupBy("send_id", "chunk_index", "c.channel", "c.measure", "c.reason")
        .agg(F.listagg("run").alias("runs"), F.listagg("listed", "\n").alias("listed"))
        .groupBy("send_id", "chunk_index", "channel")
        .agg(F.collect_list(F.struct("measure", "reason", "runs", "listed")).alias("told"))
    )
