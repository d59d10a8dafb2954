"""masscomm.ids as Spark expressions: the same ids without leaving the JVM."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from masscomm import ids

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def uuid5(name: Column) -> Column:
    """UUIDv5 of a text in masscomm's namespace, as masscomm.ids makes it. Source: RFC 9562 §5.5."""
    digest = F.sha1(F.concat(F.lit(bytearray(ids.NAMESPACE.bytes)), F.encode(name, "UTF-8")))
    # The digit that carries the variant keeps its two low bits below the bits 10.
    variant = F.translate(F.substring(digest, 17, 1), "0123456789abcdef", "89ab89ab89ab89ab")
    return F.concat(
        F.substring(digest, 1, 8),
        F.lit("-"),
        F.substring(digest, 9, 4),
        F.lit("-5"),
        F.substring(digest, 14, 3),
        F.lit("-"),
        variant,
        F.substring(digest, 18, 3),
        F.lit("-"),
        F.substring(digest, 21, 12),
    )


def chunk_id(send_id: Column, chunk_index: Column) -> Column:
    """masscomm.ids.chunk_id."""
    return uuid5(F.concat_ws("/", send_id, chunk_index))


def is_uuid(text: Column) -> Column:
    """Whether a text is a UUID as masscomm.ids writes them; null where it is null."""
    return text.rlike(_UUID)
