"""Finds the reason why a record cannot be counted."""

from collections.abc import Callable
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS, LONGEST_TEXT, MAX_CHANNELS
from masscomm.domain.measures import MEASURES

# Matches texts joined by NUL if one of them is empty or too long.
_EMPTY_OR_LONG = rf"\x00\x00|\A\x00|\x00\z|[^\x00]{{{LONGEST_TEXT + 1}}}"


class Problem(StrEnum):
    """The reason why a record is not counted."""

    UNDECODABLE = "undecodable"  # no value, no header, not decodable with its schema, or a text that is not UTF-8
    UNKNOWN_SCHEMA = "unknown_schema"  # the registry has no such Avro schema
    BAD_POSITION = "bad_position"  # a replayed send without an id, with an invalid original position in its headers
    BAD_ID = "bad_id"  # a derived record whose id is no UUID
    BAD_TEXT = "bad_text"  # a text that is empty, longer than 200 characters, or contains a NUL
    TOO_MANY_CHANNELS = "too_many_channels"  # a send with more than 16 channels
    BAD_COUNT = "bad_count"  # a count below 0
    UNKNOWN_MEASURE = "unknown_measure"  # an outcome with a status that does not exist
    BAD_TIMESTAMP = "bad_timestamp"  # a timestamp before 1970
    FAR_FUTURE = "far_future"  # a timestamp long after the record's production, or after the last supported date
    UNSTORABLE = "unstorable"  # Postgres rejects the record's counts (a constraint, a range)
    # temporary: the schema is looked up, then the record is counted or becomes unknown_schema
    NOT_LEARNED = "not_learned"


def problem_of(far_future_ms: int) -> Column:
    """Return the reason why a record of facts cannot be counted, or null."""
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

    fits = storable(F.col("type")) & storable(F.col("send_id")) & each(_all_storable, storable)
    # Avro's decoder does not check that texts are UTF-8.
    utf8 = (
        F.is_valid_utf8(F.col("type"))
        & F.is_valid_utf8(F.col("send_id"))
        & each(lambda texts: F.is_valid_utf8(_joined(texts)), F.is_valid_utf8)
    )
    measures = F.array(*map(F.lit, MEASURES))
    known_measures = F.when(several, F.size(F.array_except(counts["measure"], measures)) == 0).otherwise(
        F.coalesce(first["measure"].isin(*MEASURES), F.lit(True))
    )
    least = F.when(several, F.array_min(counts["count_total"])).otherwise(first["count_total"])
    return (
        F.when(F.col("schema_id").isNull(), Problem.UNDECODABLE)
        .when(~F.col("known"), Problem.NOT_LEARNED)
        .when(F.col("at_ms").isNull(), Problem.UNDECODABLE)
        .when(F.col("send_id").isNull(), Problem.BAD_POSITION)
        .when(~utf8, Problem.UNDECODABLE)
        .when(F.col("record_id").isNotNull() & F.col("id").isNull(), Problem.BAD_ID)
        .when(~fits, Problem.BAD_TEXT)
        .when(F.col("channels_asked") > MAX_CHANNELS, Problem.TOO_MANY_CHANNELS)
        .when(least < 0, Problem.BAD_COUNT)
        .when((F.col("source") == "outcome") & ~known_measures, Problem.UNKNOWN_MEASURE)
        .when(F.col("at_ms") < 0, Problem.BAD_TIMESTAMP)
        # A subtraction from at_ms could overflow, because at_ms may be any 64-bit integer.
        .when(F.col("at_ms") > F.col("timestamp_ms") + far_future_ms, Problem.FAR_FUTURE)
        .when(F.col("at_ms") >= END_OF_TIME_MS, Problem.FAR_FUTURE)
    )


def storable(text: Column) -> Column:
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
