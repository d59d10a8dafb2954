"""Decodes Kafka records in the Confluent wire format to structs, each with its own writer's schema."""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from masscomm.kafka.avro import LAST_SCHEMA_ID, own_schema
from masscomm.kafka.time_units import time_units
from spark_metrics.common.sources import Source, kinds_of_topics

# The wire format's header: a zero byte and the schema id.
HEADER = struct.Struct("!BI")
_HEADER_BYTES = HEADER.size

# The name of the checksum field that is appended to each value before it is decoded (see _with_checksum).
CHECKSUM = "masscomm_checksum"

# The known writers' schemas as JSON: {kind: {schema id: schema}}.
type Writers = Mapping[str, Mapping[int, str]]


def _schema_id(value: Column, known: Collection[int]) -> Column:
    header = F.substring(value, 1, _HEADER_BYTES)
    spelt = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("long")
    found = F.when(F.length(value) < _HEADER_BYTES, F.lit(None).cast("long"))
    # Comparing the five bytes of a known header is cheaper than converting them to a number.
    for schema_id in known:
        found = found.when(header == F.lit(bytearray(HEADER.pack(0, schema_id))), F.lit(schema_id))
    # A value with a number outside the range of schema ids is undecodable, so the registry is not called for it.
    # guard: metrics.schema_id_range
    is_id = (F.substring(value, 1, 1) == F.lit(bytearray(1))) & spelt.between(1, LAST_SCHEMA_ID)
    return found.when(is_id, spelt)


def decoded(records: DataFrame, writers: Writers, of: Sequence[Source]) -> DataFrame:
    """Return the columns of Spark's Kafka source without the value, and the record's kafka_offset, timestamp_ms,
    `source` and `schema_id`, a struct column for each source (`send`, `delivery`, `outcome`), `known` and `accepted`.

    `source` is the kind of the topic's records. `schema_id` is null if the value does not begin with a zero byte and a
    schema id. `known` is true if `writers` contains the writer's schema. Only the column of the record's own source is
    set; its fields are null if the schema cannot decode the value. A record is `accepted` unless
    masscomm.kafka.avro.Codec rejects its value: one with trailing bytes, or with texts (Source.texts) that are not
    UTF-8. The fields of other records are not valid.

    Args:
        of: The sources, each with the fields to decode.
    """
    structs = [_decoded(source, writers.get(source.kind, {})).alias(source.kind) for source in of]
    # Every step copies its columns, and the value is the largest of them, so only its checksum is kept.
    with_structs = _with_writers(records, writers).select("*", *structs, _checksum().alias(CHECKSUM)).drop("value")
    return with_structs.withColumns({"accepted": _accepted(of), "known": _known(writers)})


def unknown_writers(records: DataFrame, writers: Writers) -> DataFrame:
    """Return source and schema_id of the records that `writers` cannot decode, each pair once. No record is decoded."""
    unknown = F.col("schema_id").isNotNull() & ~_known(writers)
    return _with_writers(records, writers).where(unknown).select("source", "schema_id").distinct()


def _with_writers(records: DataFrame, writers: Writers) -> DataFrame:
    known = {schema_id for schemas in writers.values() for schema_id in schemas}
    kinds = F.create_map(*[F.lit(text) for entry in kinds_of_topics().items() for text in entry])
    return records.select(
        "*",
        F.col("offset").alias("kafka_offset"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        kinds[F.col("topic")].alias("source"),
        _schema_id(F.col("value"), known).alias("schema_id"),
    )


def _is_written_by(kind: str, schema_id: int) -> Column:
    return (F.col("source") == kind) & (F.col("schema_id") == schema_id)


def _decoded(source: Source, writers: Mapping[int, str]) -> Column:
    payload = F.concat(F.substring("value", _HEADER_BYTES + 1, 2**31 - 1), _checksum())
    reader = _with_checksum(source.reader_schema())
    # This branch is never evaluated. It determines the column's type while no writer's schema is known.
    value = F.when(F.lit(False), from_avro(payload, reader, {"mode": "PERMISSIVE"}))
    for schema_id, writer in writers.items():
        options = {"mode": "PERMISSIVE", "avroSchema": reader}
        fields = from_avro(payload, _with_checksum(writer), options)
        # guard: metrics.unit_of_the_writer
        for name, divisor in time_units(own_schema(source.schema), json.loads(writer)).divisors.items():
            if name in source.fields:
                fields = fields.withField(name, F.call_function("div", fields[name], F.lit(divisor)))
        value = value.when(_is_written_by(source.kind, schema_id), fields)
    return value


def _checksum() -> Column:
    return F.xxhash64("value").cast("binary")


def _with_checksum(schema: str) -> str:
    """Return a record's schema with a checksum as its last field.

    If the value has trailing bytes, they are decoded as the checksum, which then does not match.
    """
    record = json.loads(schema)
    fixed = {"type": "fixed", "name": CHECKSUM, "namespace": "masscomm.job", "size": 8}
    return json.dumps(record | {"fields": [*record["fields"], {"name": CHECKSUM, "type": fixed}]})


def _accepted(of: Sequence[Source]) -> Column:
    ends = F.coalesce(*[F.col(source.kind)[CHECKSUM] for source in of])
    whole = ends == F.col(CHECKSUM)  # guard: metrics.bytes_left_over
    utf8 = [(F.col("source") != source.kind) | F.is_valid_utf8(_texts(source)) for source in of if source.texts]
    # guard: metrics.texts_not_counted
    return F.coalesce(reduce(Column.__and__, utf8, whole), F.lit(False))


def _texts(source: Source) -> Column:
    """Return the bytes of all texts: the string form of a struct contains them."""
    return F.struct(*[F.col(source.kind)[name].alias(name) for name in source.texts]).cast("string")


def _known(writers: Writers) -> Column:
    known = [_is_written_by(kind, schema_id) for kind, schemas in writers.items() for schema_id in schemas]
    return F.coalesce(reduce(Column.__or__, known, F.lit(False)), F.lit(False))
