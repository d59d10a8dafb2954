"""Transforms Kafka's records to facts: one row per record, with all values that counting needs."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.domain.categories import DEFAULT, Categories, category_table
from spark_metrics import identifiers
from spark_metrics.decode import Writers, decoded, read_as_functions, wire_header
from spark_metrics.problems import problem_of, storable
from spark_metrics.sources import Source, decisions, sources

_POSITION = ("topic", "partition", "kafka_offset", "timestamp_ms", "source", "schema_id")
_OF_SOURCES = ("record_id", "club_id", "type", "at_ms", "chunk_index", "chunk_count", "counts", "run", "listed")
_COUNTED = ("send_id", "id", *_OF_SOURCES, "labels")
_OF_RECIPIENTS = ("user_ids", "result_index", "decisions")


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
        of = sources(recipients=recipients)
        self._steps = (
            wire_header(writers, kept),
            decoded(writers, recipients=recipients, kept=kept, strict=strict),
            *([read_as_functions(recipients=recipients, kept=kept)] if strict else []),
            _with_send_id(of),
            _with_channels(channels),
            _facts(of, recipients=recipients),
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
    run and listed (see spark_metrics.states), labels (JSON), problem, and with `recipients` user_ids, result_index and
    decisions (sources.decisions). If a row has a problem, only its position and problem are valid.

    No expression contains a lambda (transform, filter, exists): Spark would interpret it for each record, and could not
    compile the operator that contains it.

    Args:
        channels: The column with the channels that were counted for a send before; null for a new send.
        strict: Whether a value that the functions' decoder rejects is undecodable.
    """
    return Facts(writers=writers, far_future_ms=far_future_ms, recipients=recipients, channels=channels, strict=strict)(
        records
    )


def _with_send_id(of: Sequence[Source]) -> list[Column]:
    return [F.col("*"), F.coalesce(*[each.send_id(F.col(each.kind)) for each in of]).alias("send_id")]


def _with_channels(before: str | None) -> list[Column]:
    send = F.col("send")
    resolved = resolved_channels(send["type"], send["channels"], send["club_id"])
    if before is not None:
        resolved = F.coalesce(before, resolved)
    return [F.col("*"), F.when(F.col("source") == "send", resolved).alias("channels")]


def _facts(of: Sequence[Source], *, recipients: bool) -> list[Column]:
    """Return the columns of all sources, each from the source of the record."""
    columns = {source.kind: source.facts(F.col(source.kind)) for source in of}

    def fact(name: str) -> Column:
        found = F.lit(None)
        for kind, each in columns.items():
            if name in each:
                found = F.when(F.col("source") == kind, each[name]).otherwise(found)
        return found.alias(name)

    return [
        *map(F.col, _POSITION),
        # The optimizer would push a condition on `problem` below these columns, and so repeat each of their
        # expressions, decoding included. A nondeterministic expression prevents this.
        (F.col("known") & (F.spark_partition_id() >= 0)).alias("known"),
        F.size(F.col("send")["channels"]).alias("channels_asked"),
        F.col("send_id"),
        *map(fact, _OF_SOURCES),
        _labels(of).alias("labels"),
        *(_of_recipients(F.col("outcome")) if recipients else []),
    ]


def _of_recipients(outcome: Column) -> list[Column]:
    columns = (outcome["user_ids"], outcome["result_index"], decisions(outcome["results"]))
    return [column.alias(name) for name, column in zip(_OF_RECIPIENTS, columns, strict=True)]


def _labels(of: Sequence[Source]) -> Column:
    """Return the labels of the record as JSON, or null if it has none. A text that Postgres cannot store is none."""
    found = F.lit(None).cast("string")
    for source in of:
        texts = {name: F.col(source.kind)[name] for name in source.labels}
        if texts:
            fit = [F.when(storable(text) & F.is_valid_utf8(text), text).alias(name) for name, text in texts.items()]
            found = F.when(F.col("source") == source.kind, F.to_json(F.struct(*fit))).otherwise(found)
    return F.nullif(found, F.lit("{}"))


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
