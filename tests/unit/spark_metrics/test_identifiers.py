import random
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from masscomm.domain import ids
from spark_metrics.common import identifiers


def test_ids_are_those_of_masscomm_ids(spark: SparkSession) -> None:
    rng = random.Random(20261121)  # noqa: S311
    positions = [
        (
            rng.choice(["send.monolith", "send.api.critical"]),
            rng.randrange(64),
            rng.randrange(2**40),
            rng.randrange(2**41),
        )
        for _ in range(200)
    ]
    frame = spark.createDataFrame(positions, "topic string, partition int, offset long, ms long")
    send_id = identifiers.uuid5(F.concat_ws("/", "topic", "partition", "offset", "ms"))
    rows = frame.withColumn("send_id", send_id).withColumn(
        "chunk_id", identifiers.chunk_id(F.col("send_id"), F.col("partition"))
    )
    for row in rows.collect():
        expected = ids.send_id_of_record(row["topic"], row["partition"], row["offset"], row["ms"])
        assert row["send_id"] == expected
        assert row["chunk_id"] == ids.chunk_id(expected, row["partition"])


def test_texts_beyond_ascii_are_hashed_as_utf8(spark: SparkSession) -> None:
    texts = ["", "é", "日本", "\U0001f600"]
    frame = spark.createDataFrame([(text,) for text in texts], "text string")
    found = {
        row["text"]: row["id"]
        for row in frame.withColumn("id", identifiers.chunk_id(F.col("text"), F.lit(7))).collect()
    }
    assert found == {text: ids.chunk_id(text, 7) for text in texts}


def test_only_whole_uuids_are_uuids(spark: SparkSession) -> None:
    good = ids.chunk_id("x", 1)
    bad: list[str | None] = [good.upper(), good + "0", good + "\n", "\n" + good, good.replace("-", ""), "", None]
    # Strings of the right length, with a hyphen, a digit or a byte in the wrong place.
    bad += [good[:8] + good[9] + "-" + good[10:], good[:-1] + "g", good[:-2] + "é", good[:-1] + " ", good[:-1] + "-"]
    frame = spark.createDataFrame([(text,) for text in [good, *bad]], "text string")
    found = [row[0] for row in frame.select(identifiers.uuid_bytes(F.col("text"))).collect()]
    assert found == [UUID(good).bytes, *[None] * len(bad)]
