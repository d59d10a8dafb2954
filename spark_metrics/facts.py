"""Transforms Kafka's records to facts: one row per record, with all values that counting needs."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.domain.categories import DEFAULT, Categories, category_table
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from spark_metrics import identifiers
from spark_metrics.decode import Writers, decoded, origin, read_as_functions, wire_header
from spark_metrics.problems import problem_of
from spark_metrics.states import RUN

COUNTS = "array<struct<channel: string, measure: string, reason: string, count_total: long>>"
_POSITION = ("topic", "partition", "kafka_offset", "timestamp_ms", "source", "schema_id")
_COUNTED = (
    *("send_id", "record_id", "id", "club_id", "type", "at_ms", "chunk_index", "chunk_count"),
    *("counts", "run", "listed"),
)
_OF_RECIPIENTS = ("user_ids", "result_index")


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
        kept = [] if channels is None else [channels]
        problem = problem_of(far_future_ms)
        self._steps = (
            wire_header(writers, kept),
            decoded(writers, recipients=recipients, kept=kept, strict=strict),
            *([read_as_functions(recipients=recipients, kept=kept)] if strict else []),
            _with_send_id(),
            _with_channels(channels),
            _facts(recipients=recipients),
            [F.col("*"), identifiers.uuid_bytes(F.col("record_id")).alias("id")],
            [*map(F.col, (*_POSITION, *_COUNTED, *(_OF_RECIPIENTS if recipients else ()))), problem.alias("problem")],
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
    resolved = resolved_channels(send["type"], send["channels"], send["club_id"])
    if before is not None:
        resolved = F.coalesce(before, resolved)
    return [F.col("*"), F.when(F.col("source") == "send", resolved).alias("channels")]


def _facts(*, recipients: bool) -> list[Column]:
    """Return the columns of all three sources, and `counts`: an array of {channel, measure, reason, count_total}."""
    send, delivery, outcome = F.col("send"), F.col("delivery"), F.col("outcome")
    return [
        *map(F.col, _POSITION),
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


def resolved_channels(category: Column, asked: Column, club_id: Column) -> Column:
    """Return the same channels as masscomm.domain.categories.resolve_channels."""
    table = category_table()
    listed, default = _channels_of(table.categories), F.lit(DEFAULT)
    found = [F.try_element_at(listed, category), F.try_element_at(listed, default)]
    if own := {club: entries for club, entries in table.of_clubs.items() if entries}:
        of_club = F.try_element_at(
            F.create_map(
                *[column for club, each in own.items() for column in (F.lit(club).cast("long"), _channels_of(each))]
            ),
            club_id,
        )
        found = [
            F.try_element_at(of_club, category),
            F.try_element_at(listed, category),
            F.try_element_at(of_club, default),
            F.try_element_at(listed, default),
        ]
    return F.when(F.size(asked) > 0, F.array_distinct(asked)).otherwise(F.coalesce(*found))


def _channels_of(found: Categories) -> Column:
    """Return a map of the channels of each category."""
    return F.create_map(
        *[
            column
            for name, entry in found.items()
            for column in (F.lit(name), F.array(*[F.lit(channel) for channel in entry.channels]))
        ]
    )


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
