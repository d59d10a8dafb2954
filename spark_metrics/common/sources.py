"""The kinds of records that are counted: topics, fields and facts of each. docs/internals/metrics-sources.md shows how
to add one.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm.domain.lanes import Lane
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from masscomm.domain.notification_codes import RUN
from masscomm.kafka import topics
from masscomm.kafka.avro import own_schema
from spark_metrics.common import identifiers
from spark_metrics.common.settings import imported

type Fields = dict[str, "Fields | None"]

COUNTS = "array<struct<channel: string, measure: string, reason: string, count_total: long>>"


@dataclass(frozen=True)
class Source:
    """One kind of record.

    Attributes:
        kind: The name of the kind in the tables of counted ids.
        schema: The name of the Avro schema in schemas/.
        topic_names: Names in schemas/topics.yaml; the topics of every lane are read.
        fields: The fields that are counted.
        facts: Returns, for the decoded record, record_id, club_id, type, at_ms and counts (COUNTS). It may return
            chunk_index and chunk_count, due_ms for latencies (masscomm.domain.latencies), for results by position run
            and listed (masscomm.domain.notification_codes), and for results of webhooks listed
            (spark_metrics.counting.webhook_results).
        send_id: Returns the id of the record's send; null if the record could not be decoded.
        labels: Those of `fields` that a view can have as dimensions (spark_metrics.counting.views); texts.
        texts: Fields, also beyond `fields`, that are checked to be UTF-8. All other fields are skipped.
    """

    kind: str
    schema: str
    topic_names: tuple[str, ...]
    fields: Fields
    facts: Callable[[Column], Mapping[str, Column]]
    send_id: Callable[[Column], Column] = lambda record: record["send_id"]
    labels: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def topics(self) -> list[str]:
        """Return the names of the topics in Kafka, in all lanes."""
        return list(dict.fromkeys(topics.in_lane(name, lane) for name in self.topic_names for lane in Lane))

    def reader_schema(self) -> str:
        """Return our schema as JSON with only `fields` and `texts`; values are resolved to it from each writer's
        schema.
        """
        return json.dumps(_projected(own_schema(self.schema), self.fields | names(*self.texts)))


def names(*names: str) -> Fields:
    return dict.fromkeys(names)


def _id_of_send(send: Column) -> Column:
    own = F.coalesce(F.nullif(send["send_id"], F.lit("")), identifiers.uuid5(identifiers.origin()))
    return F.when(send["type"].isNotNull(), own)


def _facts_of_send(send: Column) -> dict[str, Column]:
    return {
        "record_id": identifiers.chunk_id(F.col("send_id"), send["chunk_index"]),
        "club_id": send["club_id"],
        "type": send["type"],
        "at_ms": send["timestamp"],
        "chunk_index": send["chunk_index"],
        "chunk_count": send["chunk_count"],
        # The channels of the category, if the send names none (spark_metrics.counting.facts).
        "counts": requested(F.col("channels"), send["to_users"]),
    }


def _facts_of_delivery(delivery: Column) -> dict[str, Column]:
    return {
        "record_id": delivery["record_id"],
        "club_id": delivery["club_id"],
        "type": delivery["type"],
        "at_ms": delivery["built_at"],
        "counts": queued(delivery["channel"], delivery["positions"], delivery["waits"]),
    }


def _facts_of_outcome(outcome: Column) -> dict[str, Column]:
    return {
        "record_id": outcome["record_id"],
        "club_id": outcome["club_id"],
        "type": outcome["type"],
        "at_ms": outcome["timestamp"],
        "chunk_index": outcome["chunk_index"],
        "due_ms": outcome["due_at"],
        "counts": decided(outcome["channel"], outcome["results"]),
        "run": F.when(_is_run(outcome), run_of(outcome["positions"])),
        "listed": F.when((F.size(outcome["results"]) > 0) & ~_is_run(outcome), listed(outcome)),
    }


def _facts_of_webhook_outcome(outcome: Column) -> dict[str, Column]:
    return {"record_id": outcome["record_id"], "at_ms": outcome["timestamp"], "listed": listed_results(outcome)}


_LABELS = ("template", "locale")
SEND = Source(
    "send",
    "SendRequested",
    (topics.SEND_MONOLITH, topics.SEND_API),
    names("type", "club_id", "timestamp", "to_users", "send_id", "chunk_index", "chunk_count", "channels", *_LABELS),
    _facts_of_send,
    _id_of_send,
    _LABELS,
    # The functions cannot decode a send with an invalid text, so it has no outcomes and must not be counted as
    # requested.
    texts=(
        *("template", "data", "locale", "priority", "collapse_key", "reference", "principal", "send_at_local"),
        "push",
    ),
)
DELIVERY = Source(
    "delivery",
    "DeliveryRequested",
    (topics.DELIVERY,),
    names("record_id", "send_id", "club_id", "type", "built_at", "channel", "waits", "positions", *_LABELS),
    _facts_of_delivery,
    labels=_LABELS,
)
OUTCOME = Source(
    "outcome",
    "NotificationOutcome",
    (topics.OUTCOME,),
    names(
        *("record_id", "send_id", "club_id", "type", "channel", "timestamp"),
        *("chunk_index", "positions", "result_index", "due_at", *_LABELS),
    )
    | {"results": names("status", "reason", "count")},
    _facts_of_outcome,
    labels=_LABELS,
)
_TEXT_COLUMNS = ("endpoints", "types", "message_id", "event_id", "error")
# The columns of a record with results of webhook messages.
RESULT_COLUMNS = (
    *_TEXT_COLUMNS,
    *("endpoint_index", "type_index", "club_id", "status", "attempt", "http_status", "duration_ms", "at_ms"),
)
WEBHOOK_OUTCOME = Source(
    "webhook_outcome",
    "WebhookOutcome",
    (topics.WEBHOOK_OUTCOME,),
    names("record_id", "timestamp", *RESULT_COLUMNS),
    _facts_of_webhook_outcome,
    # The messages of a record belong to no send: its id chooses the lane.
    lambda outcome: outcome["record_id"],
    texts=_TEXT_COLUMNS,
)


# The fields of a result that the log of recipients keeps as its decision.
DECISION = ("layer", "rule", "settings_version", "settings_changed_at")


@cache
def all_sources() -> tuple[Source, ...]:
    """Return our sources, and those that SPARK_SOURCES names as module:VARIABLE, separated by commas. Only the driver
    needs them.

    Raises Stop for a name without a source.
    """
    named = filter(None, os.environ.get("SPARK_SOURCES", "").split(","))
    return (
        SEND,
        DELIVERY,
        OUTCOME,
        WEBHOOK_OUTCOME,
        *[imported("SPARK_SOURCES", name.strip(), Source) for name in named],
    )


def kinds_of_topics() -> dict[str, str]:
    """Return the kind of the records in each topic."""
    return {topic: source.kind for source in all_sources() for topic in source.topics()}


def sources(*, recipients: bool) -> tuple[Source, ...]:
    """Return the sources, with the users and decisions of each outcome if the log of recipients needs them."""
    results = names("status", "reason", "count", *DECISION)
    with_users = replace(OUTCOME, fields=OUTCOME.fields | names("user_ids") | {"results": results})
    return tuple(with_users if recipients and each is OUTCOME else each for each in all_sources())


def _projected(schema: Any, wanted: Fields | None) -> Any:
    """Return the schema with only the wanted fields, without logical types.

    Without logical types, timestamps are decoded as integers: every value can be checked, and none overflows.
    """
    if isinstance(schema, list):
        return [_projected(branch, wanted) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in ("logicalType", "doc")}
    if plain.get("type") == "record":
        chosen = [f for f in plain["fields"] if wanted is None or f["name"] in wanted]
        plain["fields"] = [
            f | {"type": _projected(f["type"], None if wanted is None else wanted[f["name"]])} for f in chosen
        ]
    elif plain.get("type") == "array":
        plain["items"] = _projected(plain["items"], wanted)
    elif "type" in plain:
        # {"type": "long", "logicalType": …} becomes "long"
        return plain["type"] if set(plain) == {"type"} else plain
    return plain


def _counts(channel: Column, measure: Column, reason: Column, count: Column) -> Column:
    """Combine arrays of equal length to an array of counts."""
    return F.arrays_zip(channel, measure, reason, count.cast("array<long>")).cast(COUNTS)


def count_of(channel: Column, measure: Column, reason: Column, count: Column) -> Column:
    """Return the counts of a record with a single count."""
    return F.array(
        F.struct(
            channel.alias("channel"),
            measure.alias("measure"),
            reason.alias("reason"),
            count.cast("long").alias("count_total"),
        )
    ).cast(COUNTS)


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
    one = count_of(channel, only["status"], only["reason"], only["count"])
    return F.when(F.size(results) == 1, one).otherwise(several)


def decisions(results: Column) -> Column:
    """Return the decision of each result as a line of JSON: a list for each field of DECISION."""
    return F.to_json(F.struct(*[results[name].alias(name) for name in DECISION]), {"ignoreNullFields": "false"})


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
    """Return the result of each position as a line of JSON (masscomm.domain.notification_codes)."""
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


def listed_results(outcome: Column) -> Column:
    """Return the results of webhook messages as a line of JSON: an object with the record's columns."""
    columns = [outcome[name].alias(name) for name in RESULT_COLUMNS]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
