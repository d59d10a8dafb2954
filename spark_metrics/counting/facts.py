"""Transforms Kafka's records to facts: one row per record, with all values that counting needs."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from masscomm.domain.categories import (
    DEFAULT,
    Categories,
    Category,
    CategoryTable,
    CategoryVersion,
    category_table,
)
from masscomm.domain.limits import FAR_FUTURE_MS
from spark_metrics.common import identifiers
from spark_metrics.common.sources import WEBHOOK_OUTCOME, Source, decisions, sources
from spark_metrics.counting.decode import Writers, decoded
from spark_metrics.counting.problems import joined_texts, problem_of, problem_of_results, storable

_POSITION = ("topic", "partition", "kafka_offset", "timestamp_ms", "source", "schema_id")
_OF_SOURCES = (
    *("record_id", "club_id", "type", "at_ms", "chunk_index", "chunk_count", "due_ms", "counts", "run", "listed"),
)
_COUNTED = ("send_id", "id", *_OF_SOURCES, "labels")
_OF_RECIPIENTS = ("user_ids", "result_index", "decisions")
CHANNELS_THEN = "channels_then"
_LABEL = "label_"


def facts(
    records: DataFrame,
    *,
    writers: Writers,
    far_future_ms: int = FAR_FUTURE_MS,
    recipients: bool = False,
) -> DataFrame:
    """Return the facts of Kafka's records: one row per record, even for records that cannot be counted.

    The columns are topic, partition, kafka_offset, timestamp_ms, source, schema_id, send_id, record_id, id (the 16
    bytes of record_id), club_id, type, at_ms, chunk_index, chunk_count, due_ms, counts (channel, measure, reason,
    count_total), run and listed (see masscomm.domain.notification_codes), labels (JSON), problem, and with `recipients`
    user_ids, result_index and decisions (sources.decisions). If a row has a problem, only its position and problem are
    valid.

    No expression contains a lambda (transform, filter, exists): Spark would interpret it for each record, and could not
    compile the operator that contains it.

    Args:
        records: The columns of Spark's Kafka source with headers. They may have CHANNELS_THEN: the channels that were
            counted for a send before; null for a new send.
    """
    of = sources(recipients=recipients)
    wanted = (*_POSITION, *_COUNTED, *(_OF_RECIPIENTS if recipients else ()))
    return (
        decoded(records, writers, of)
        .withColumn("send_id", F.coalesce(*[each.send_id(F.col(each.kind)) for each in of]))
        .withColumn("channels", _channels(counted_before=CHANNELS_THEN in records.columns))
        .select(*_facts(of, recipients=recipients))
        .withColumns({"id": identifiers.uuid_bytes(F.col("record_id")), "labels": _labels(of), "texts": joined_texts()})
        .select(*wanted, problem_of(far_future_ms).alias("problem"))
    )


def _channels(*, counted_before: bool) -> Column:
    send = F.col("send")
    resolved = resolved_channels(send["type"], send["channels"], send["club_id"], send["timestamp"])
    known = F.coalesce(CHANNELS_THEN, resolved) if counted_before else resolved
    return F.when(F.col("source") == "send", known)


def _facts(of: Sequence[Source], *, recipients: bool) -> list[Column]:
    """Return the columns of all sources, each from the source of the record."""
    columns = {source.kind: source.facts(F.col(source.kind)) for source in of}

    def fact(name: str) -> Column:
        return _of_source({kind: each[name] for kind, each in columns.items() if name in each}).alias(name)

    return [
        *map(F.col, _POSITION),
        # The optimizer would push a condition on `problem` below these columns, and so repeat each of their
        # expressions, decoding included. A nondeterministic expression prevents this.
        (F.col("known") & (F.spark_partition_id() >= 0)).alias("known"),
        F.col("accepted"),
        F.size(F.col("send")["channels"]).alias("channels_asked"),
        F.when(F.col("source") == WEBHOOK_OUTCOME.kind, problem_of_results(F.col(WEBHOOK_OUTCOME.kind))).alias(
            "problem_of_results"
        ),
        F.when(F.col("accepted"), F.col("send_id")).alias("send_id"),
        *map(fact, _OF_SOURCES),
        *[
            _of_source({each.kind: F.col(each.kind)[name] for each in of if name in each.labels}).alias(_LABEL + name)
            for name in _label_names(of)
        ],
        *(_of_recipients(F.col("outcome")) if recipients else []),
    ]


def _of_source(values: Mapping[str, Column]) -> Column:
    """Return the value of the record's source, or null."""
    (first, value), *others = values.items()
    found = F.when(F.col("source") == first, value)
    for kind, value in others:
        found = found.when(F.col("source") == kind, value)
    return found


def _of_recipients(outcome: Column) -> list[Column]:
    columns = (outcome["user_ids"], outcome["result_index"], decisions(outcome["results"]))
    return [column.alias(name) for name, column in zip(_OF_RECIPIENTS, columns, strict=True)]


def _label_names(of: Sequence[Source]) -> list[str]:
    return list(dict.fromkeys(name for source in of for name in source.labels))


def _labels(of: Sequence[Source]) -> Column:
    """Return the labels of the record as JSON, or null if it has none. A text that Postgres cannot store is none."""
    texts = {name: F.col(_LABEL + name) for name in _label_names(of)}
    fit = [F.when(storable(text) & F.is_valid_utf8(text), text).alias(name) for name, text in texts.items()]
    return F.nullif(F.to_json(F.struct(*fit)), F.lit("{}")) if fit else F.lit(None).cast("string")


def resolved_channels(category: Column, asked: Column, club_id: Column, at_ms: Column) -> Column:
    """Return the same channels as masscomm.domain.categories.resolve_channels, with the versions that this process has
    read.
    """
    table = category_table()
    listed, default = _listed_name(table, category), F.lit(DEFAULT)
    maps = [_channels_of(table.categories)]
    if own := {club: entries for club, entries in table.of_clubs.items() if entries}:
        of_club = F.try_element_at(
            F.create_map(
                *[column for club, each in own.items() for column in (F.lit(club).cast("long"), _channels_of(each))]
            ),
            club_id,
        )
        maps = [of_club, *maps]
    own_versions = [
        found
        for name, versions in table.versions.items()
        if name != DEFAULT
        for found in _channels_of_versions(versions, listed == name, at_ms, club_id)
    ]
    own_entries = [F.try_element_at(each, listed) for each in maps]
    of_default = [
        *_channels_of_versions(table.versions.get(DEFAULT, ()), F.lit(True), at_ms, club_id),
        *(F.try_element_at(each, default) for each in maps),
    ]
    # The entry `default` of the file is that of the type `default`, too, which the versions replace.
    entries = [F.when(listed != default, each) for each in own_entries]
    found = F.coalesce(*own_versions, *entries, *of_default)
    return F.when(F.size(asked) > 0, F.array_distinct(asked)).otherwise(found)


def _channels_of_versions(
    versions: Sequence[CategoryVersion], applies: Column, at_ms: Column, club_id: Column
) -> list[Column]:
    """Return the channels of each version, the latest first; null if it does not apply or is not valid yet."""
    return [
        F.when(applies & (at_ms >= each.from_ms), _channels_of_version(each, club_id))
        for each in reversed(_with_other_channels(versions))
    ]


def _listed_name(table: CategoryTable, name: Column) -> Column:
    """Return the name of the category that a name is a spelling of, as masscomm.domain.names.folded compares."""
    known = F.create_map(*[F.lit(text) for pair in table.names.items() for text in pair])
    # The ASCII characters that Python's str.split() takes for blanks.
    spelled = F.try_element_at(known, F.lower(F.regexp_replace(name, r"[\t-\r\x1c- ]", "")))
    return F.coalesce(F.when(~name.rlike(r"[^\x00-\x7f]"), spelled), name)


def _with_other_channels(versions: Sequence[CategoryVersion]) -> list[CategoryVersion]:
    """Return the versions with other channels than the one before."""

    def channels(version: CategoryVersion) -> object:
        return version.category.channels, {club: each.channels for club, each in version.of_clubs.items()}

    changed = [each for before, each in pairwise(versions) if channels(before) != channels(each)]
    return [*versions[:1], *changed]


def _channels_of_version(version: CategoryVersion, club_id: Column) -> Column:
    for_all = _array(version.category)
    if not version.of_clubs:
        return for_all
    of_club = F.create_map(
        *[column for club, each in version.of_clubs.items() for column in (F.lit(club).cast("long"), _array(each))]
    )
    return F.coalesce(F.try_element_at(of_club, club_id), for_all)


def _channels_of(found: Categories) -> Column:
    """Return a map of the channels of each category."""
    return F.create_map(*[column for name, entry in found.items() for column in (F.lit(name), _array(entry))])


def _array(category: Category) -> Column:
    return F.array(*[F.lit(channel) for channel in category.channels])
