"""Computes the ids of masscomm.domain.ids in the JVM, as Spark expressions."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm.domain import ids
from masscomm.kafka.dead_letters import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC

# (start, length) of the groups of digits in a UUID's text, counted from 1. A hyphen precedes each group but the first.
_DIGITS = ((1, 8), (10, 4), (15, 4), (20, 4), (25, 12))
_UUID_LENGTH = 36


def uuid5(name: Column) -> Column:
    """Return the UUIDv5 of a text in masscomm's namespace, as masscomm.domain.ids does. Source: RFC 9562 §5.5."""
    digest = F.sha1(F.concat(F.lit(bytearray(ids.NAMESPACE.bytes)), F.encode(name, "UTF-8")))
    # The digit with the variant keeps its two low bits; its two high bits become 10.
    variant = F.translate(F.substring(digest, 17, 1), "0123456789abcdef", "89ab89ab89ab89ab")
    # Spark repeats the code of `digest`, and calculates it again, for each place in which it is used: here two.
    text = F.overlay(F.overlay(digest, F.lit("5"), 13), variant, 17)
    for first, _ in _DIGITS[1:]:
        text = F.overlay(text, F.lit("-"), first - 1, 0)
    return F.substring(text, 1, _UUID_LENGTH)


def chunk_id(send_id: Column, chunk_index: Column) -> Column:
    return uuid5(F.concat_ws("/", send_id, chunk_index))


def uuid_bytes(text: Column) -> Column:
    """Return the 16 bytes of a UUID in lower case with hyphens; null for any other text.

    A regular expression would need three times as long.
    """
    spelt = text.cast("binary")
    hyphens = F.concat(*[F.substring(spelt, first - 1, 1) for first, _ in _DIGITS[1:]])
    digits = F.concat(*[F.substring(spelt, first, n) for first, n in _DIGITS])
    as_written = (
        (F.octet_length(text) == _UUID_LENGTH) & (hyphens == F.lit(bytearray(b"----"))) & (F.lower(text) == text)
    )
    return F.when(as_written, F.unhex(digits.cast("string")))


def origin() -> Column:
    """Return topic/partition/offset/timestamp of the record when it was first produced, as
    masscomm.kafka.dead_letters.original_position does. The id of a send without send_id is the hash of this text.

    For a replayed record the position is in its headers; the result is null if these are invalid.
    """
    # spark.sql.mapKeyDedupPolicy is LAST_WIN: the last header of a name counts, as with Kafka's lastHeader.
    headers = F.map_from_entries("headers")

    def header(name: str) -> Column:
        return F.try_element_at(headers, F.lit(name))

    def whole(name: str) -> Column:
        # The text is converted to a number and back, because " 07" and "7" are the same position.
        return F.trim(header(name).cast("string")).try_cast("long").cast("string")

    original = [whole(name) for name in (SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)]
    # F.decode would raise an error for the whole batch if the bytes are not UTF-8.
    topic = F.try_validate_utf8(header(SOURCE_TOPIC).cast("string"))  # guard: metrics.position_header
    replayed = F.concat(topic, *[part for text in original for part in (F.lit("/"), text)])
    here = F.concat_ws("/", "topic", "partition", "kafka_offset", "timestamp_ms")
    return F.when(header(SOURCE_TOPIC).isNotNull(), replayed).otherwise(here)
