"""Prepared plans: planned once, and executed each time on the present rows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_metrics import prepared
from spark_metrics.prepared import PreparedPlans, leaf

WORDS = ("a", "b")


class Transform:
    """Wraps a transform of data frames and counts its calls."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.asked = 0

    def __call__(self, *frames: DataFrame) -> DataFrame:
        self.asked += 1
        made: DataFrame = self._made(*frames)
        return made


def sums(frame: DataFrame) -> DataFrame:
    return frame.where(F.col("n") > 0).groupBy("word").agg(F.sum("n").alias("n"))


def numbers(spark: SparkSession, *rows: int) -> DataFrame:
    return spark.createDataFrame([(WORDS[n % 2], n) for n in rows], "word string, n long")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def expected(rows: Iterable[int]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for n in rows:
        if n > 0:
            found[WORDS[n % 2]] = found.get(WORDS[n % 2], 0) + n
    return sorted(found.items())


BATCHES: list[tuple[int, ...]] = [(1, 2, 3, -1), (4, 6), (), (-1,), (5, 5, 7)]


@pytest.mark.kills(guard="prepared_plans.own_rows")
def test_each_batch_has_its_own_rows_and_is_not_planned_again(spark: SparkSession) -> None:
    plans, transform = PreparedPlans(), Transform(sums)
    for rows in BATCHES:
        assert rows_of(plans.frame("sums", [numbers(spark, *rows)], transform)) == expected(rows)
    assert transform.asked == 1


def test_persisted_input_is_not_computed_again(spark: SparkSession) -> None:
    plans, transform = PreparedPlans(), Transform(sums)
    read = spark.sparkContext.accumulator(0)
    for rows in BATCHES:

        def noted(n: int) -> int:
            read.add(1)
            return n

        slow = numbers(spark, *rows).select("word", F.udf(noted, "long")("n").alias("n"))
        with persisted(slow):
            slow.count()
            before = read.value
            assert rows_of(plans.frame("sums", [slow], transform)) == expected(rows)
            assert read.value == before
    assert transform.asked == 1


def test_two_input_frames_keep_their_order(spark: SparkSession) -> None:
    plans = PreparedPlans()
    transform = Transform(lambda one, other: one.join(other, "word").select("word", one.n, other.n.alias("other")))
    for n in (1, 3, 5):
        with persisted(numbers(spark, 10 * n + 1)) as other:
            made = plans.frame("join", [numbers(spark, n, n + 1), other], transform)
            assert rows_of(made) == [("b", n, 10 * n + 1)]
    assert transform.asked == 1


def test_one_frame_may_be_read_twice(spark: SparkSession) -> None:
    plans, transform = PreparedPlans(), Transform(lambda one, again: one.unionAll(again))
    for n in (1, 2):
        frame = numbers(spark, n)
        assert [n for _, n in rows_of(plans.frame("twice", [frame, frame], transform))] == [n, n]
    assert transform.asked == 1


def test_frame_with_a_lineage_becomes_a_leaf_first(spark: SparkSession) -> None:
    plans, transform = PreparedPlans(), Transform(sums)
    for rows in BATCHES:
        doubled = numbers(spark, *rows).withColumn("n", F.col("n") * 2).withColumn("n", (F.col("n") / 2).cast("long"))
        assert rows_of(plans.frame("sums", [doubled], transform)) == expected(rows)
    assert transform.asked == 1


@pytest.mark.kills(guard="prepared_plans.other_columns")
def test_other_columns_are_planned_separately(spark: SparkSession) -> None:
    plans, transform = PreparedPlans(), Transform(lambda frame: frame.select(frame.columns[-1]))
    assert rows_of(plans.frame("last", [numbers(spark, 1)], transform)) == [(1,)]
    assert rows_of(plans.frame("last", [spark.createDataFrame([("x", 7)], "n string, word int")], transform)) == [(7,)]
    assert rows_of(plans.frame("last", [numbers(spark, 2)], transform)) == [(2,)]


def test_transform_with_another_input_is_planned_every_time(spark: SparkSession) -> None:
    plans = PreparedPlans()
    beside: list[DataFrame] = []
    transform = Transform(lambda frame: frame.join(beside[-1], "word"))
    for n in (1, 2, 3):
        beside.append(spark.range(n).select(F.lit("b").alias("word"), F.col("id")))
        assert len(rows_of(plans.frame("join", [numbers(spark, 1)], transform))) == n
    assert transform.asked == len(beside)


@pytest.mark.kills(guard="prepared_plans.subqueries")
@pytest.mark.parametrize(
    "made",
    [
        lambda frame: frame.where(F.col("n") == frame.agg(F.max("n")).scalar()),
        lambda frame: sums(frame).withColumn("n", F.lit(0)).join(sums(frame), "word").select("word", F.lit(1)),
    ],
    ids=["subquery", "reused exchange"],
)
def test_plan_that_cannot_be_reused_is_planned_again(spark: SparkSession, made: Any) -> None:
    plans = PreparedPlans()
    for rows in BATCHES:
        frame = numbers(spark, *rows)
        assert rows_of(plans.frame("made", [frame], made)) == rows_of(made(frame))


def test_plan_that_cannot_be_copied_is_planned_and_logged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Simulate a Spark version in which this plan node has other constructor arguments.
    monkeypatch.setattr(prepared, "_scan", lambda node, leaf: node.copy(node.output(), leaf.rows))
    plans = PreparedPlans()
    for rows in BATCHES:
        assert rows_of(plans.frame("sums", [numbers(spark, *rows)], sums)) == expected(rows)
    assert [record.message for record in caplog.records if "each batch is planned anew" in record.message] != []


def test_leaf_has_the_rows_and_no_lineage(spark: SparkSession) -> None:
    made: Any = leaf(sums(numbers(spark, 1, 2, 3)))
    assert rows_of(made) == expected((1, 2, 3))
    assert made._jdf.queryExecution().analyzed().children().isEmpty()
