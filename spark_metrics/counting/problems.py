"""Finds the reason why a record cannot be counted."""

from datetime import timedelta
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm.domain.limits import EARLIEST_MS, END_OF_TIME_MS, LONGEST_TEXT, MAX_CHANNELS
from masscomm.domain.measures import MEASURES
from masscomm.domain.time_limits import TOO_OLD_S
from masscomm.domain.webhooks import AttemptResult
from spark_metrics.common.sources import RESULT_COLUMNS
from spark_metrics.common.span import RESULTS_APART

_NUL = "\0"
# Matches texts joined by NUL if one of them is too long.
_LONG = rf"[^\x00]{{{LONGEST_TEXT + 1}}}"


class Problem(StrEnum):
    """The reason why a record is not counted."""

    UNDECODABLE = "undecodable"  # no value, no header, not decodable with its schema, or a text that is not UTF-8
    UNKNOWN_SCHEMA = "unknown_schema"  # the registry has no such Avro schema
    LATE_SCHEMA = "late_schema"  # its schema was registered after it was read; it was produced again, and counted then
    BAD_POSITION = "bad_position"  # a replayed send without an id, with an invalid original position in its headers
    BAD_ID = "bad_id"  # a derived record whose id is not a UUID
    BAD_TEXT = "bad_text"  # a text that is empty, longer than 200 characters, or contains a NUL
    TOO_MANY_CHANNELS = "too_many_channels"  # a send with more than 16 channels
    BAD_COUNT = "bad_count"  # a count or duration below 0, an attempt below 1
    BAD_COLUMNS = "bad_columns"  # results of webhooks with columns of different lengths, or an index beyond a column
    UNKNOWN_MEASURE = "unknown_measure"  # an outcome with a status that does not exist
    # a timestamp before September 2001, such as one in seconds, or a webhook's result far from its record's timestamp
    BAD_TIMESTAMP = "bad_timestamp"
    TOO_OLD = "too_old"  # a send or an outcome with a timestamp long before the record's production
    FAR_FUTURE = "far_future"  # a timestamp long after the record's production, or after the last supported date
    UNSTORABLE = "unstorable"  # Postgres rejects the record's counts (a constraint, a range)
    # temporary: the schema is looked up, then the record is counted or becomes unknown_schema
    NOT_LEARNED = "not_learned"


def joined_texts() -> Column:
    """Return the texts of a record of facts that are stored in keys, joined by NUL: its type, its send id, and of each
    count channel, measure and reason, or "null".

    With NUL between them, invalid bytes at the end of one text cannot complete a character in the next.
    """
    counts = F.col("counts")
    of_counts = F.concat(counts["channel"], counts["measure"], counts["reason"])
    none = F.array().cast("array<string>")
    return F.array_join(F.concat(F.array("type", "send_id"), F.coalesce(of_counts, none)), _NUL, "null")


def problem_of(far_future_ms: int) -> Column:
    """Return the reason why a record of facts, with its joined `texts`, cannot be counted, or null."""
    counts = F.col("counts")
    unknown = F.size(F.array_except(counts["measure"], F.array(*map(F.lit, MEASURES)))) > 0
    # Nearly every outcome has one count, and the set of an array takes longer than decoding it.
    unknown = F.when(F.size(counts) == 1, ~F.get(counts, F.lit(0))["measure"].isin(*MEASURES)).otherwise(unknown)
    # The chain retries a delivery record until its expires_at, which may be next year.
    ages = F.col("source") != "delivery"
    is_too_old = ages & (F.col("at_ms") < F.col("timestamp_ms") - TOO_OLD_S * 1000)  # guard: metrics.too_old
    return (
        F.when(F.col("schema_id").isNull(), Problem.UNDECODABLE)
        .when(~F.col("known"), Problem.NOT_LEARNED)
        # Avro's decoder does not check that texts are UTF-8.
        .when(~F.col("accepted") | F.col("at_ms").isNull(), Problem.UNDECODABLE)
        .when(F.col("send_id").isNull(), Problem.BAD_POSITION)
        .when(~F.is_valid_utf8("texts"), Problem.UNDECODABLE)
        .when(F.col("record_id").isNotNull() & F.col("id").isNull(), Problem.BAD_ID)
        .when(F.col("problem_of_results").isNotNull(), F.col("problem_of_results"))
        .when(~_all_storable(F.col("texts"), 2 + 3 * F.greatest(F.size(counts), F.lit(0))), Problem.BAD_TEXT)
        .when(F.col("channels_asked") > MAX_CHANNELS, Problem.TOO_MANY_CHANNELS)
        .when(F.array_min(counts["count_total"]) < 0, Problem.BAD_COUNT)
        .when((F.col("source") == "outcome") & unknown, Problem.UNKNOWN_MEASURE)
        .when(F.col("at_ms") < EARLIEST_MS, Problem.BAD_TIMESTAMP)
        .when(is_too_old, Problem.TOO_OLD)
        # A subtraction from at_ms could overflow, because at_ms may be any 64-bit integer.
        .when(F.col("at_ms") > F.col("timestamp_ms") + far_future_ms, Problem.FAR_FUTURE)
        .when(F.col("at_ms") >= END_OF_TIME_MS, Problem.FAR_FUTURE)
    )


def problem_of_results(outcome: Column) -> Column:
    """Return the reason why a record with results of webhook messages cannot be counted, or null."""
    n = F.size(outcome["event_id"])
    columns = [F.size(outcome[name]) for name in RESULT_COLUMNS if name not in ("endpoints", "types", "message_id")]
    ids = F.size(outcome["message_id"])
    # guard: metrics.columns_of_results
    do_not_fit = reduce(
        Column.__or__,
        [size != n for size in columns]
        + [(ids != n) & (ids != 0)]
        + [F.array_min(outcome[index]) < 0 for index in ("endpoint_index", "type_index")]
        + [F.array_max(outcome["endpoint_index"]) >= F.size(outcome["endpoints"])]
        + [F.array_max(outcome["type_index"]) >= F.size(outcome["types"])],
    )
    texts = F.concat(*[outcome[name] for name in ("endpoints", "types", "message_id", "event_id")])
    # An error may be empty.
    errors = F.array_join(outcome["error"], _NUL)
    bad_texts = ~_all_storable(F.array_join(texts, _NUL), F.size(texts))  # guard: metrics.texts_of_results
    bad_errors = ((n > 0) & (_nuls(errors) != n - 1)) | errors.rlike(_LONG)
    known = F.array(*[F.lit(each.value) for each in AttemptResult])
    apart = F.lit(RESULTS_APART // timedelta(milliseconds=1)).cast("long")
    early = F.array_min(outcome["at_ms"]) < F.try_subtract(outcome["timestamp"], apart)
    is_apart = early | (F.array_max(outcome["at_ms"]) > F.try_add(outcome["timestamp"], apart))
    # guard: metrics.time_of_results
    is_apart = F.coalesce(is_apart, n > 0)
    return (
        F.when(do_not_fit, Problem.BAD_COLUMNS)
        .when((F.array_min(outcome["attempt"]) < 1) | (F.array_min(outcome["duration_ms"]) < 0), Problem.BAD_COUNT)
        .when(F.size(F.array_except(outcome["status"], known)) > 0, Problem.UNKNOWN_MEASURE)
        .when(bad_texts | bad_errors, Problem.BAD_TEXT)
        .when(is_apart, Problem.BAD_TIMESTAMP)
    )


def storable(text: Column) -> Column:
    """Return whether Postgres can store the text and index it: it contains no NUL and is not too long."""
    # The length in bytes costs nothing and is never below the number of characters, which is counted only if the former
    # is too large.
    length = F.octet_length(text).between(1, LONGEST_TEXT) | F.length(text).between(1, LONGEST_TEXT)
    return length & ~F.contains(text, F.lit(_NUL))


def _all_storable(joined: Column, number: Column) -> Column:
    """Return whether each of a number of texts, joined by NUL, is storable."""
    nul = F.lit(_NUL)
    empty = F.startswith(joined, nul) | F.endswith(joined, nul) | F.contains(joined, F.lit(_NUL + _NUL))
    too_long = (F.octet_length(joined) > LONGEST_TEXT) & joined.rlike(_LONG)
    return (_nuls(joined) == number - 1) & ~empty & ~too_long


def _nuls(joined: Column) -> Column:
    return F.octet_length(joined) - F.octet_length(F.replace(joined, F.lit(_NUL), F.lit("")))
