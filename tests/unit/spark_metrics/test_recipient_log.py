from pyspark.sql import SparkSession

from spark_metrics.recipient_log import recipients

_FACTS = (
    "source string, send_id string, club_id long, type string, at_ms long, user_ids array<long>,"
    " result_index array<int>,"
    " counts array<struct<channel: string, measure: string, reason: string, count_total: long>>"
)
SENT, OUT = ("push", "sent", None, 2), ("push", "suppressed", "opted_out", 1)


def test_each_user_is_listed_under_their_result(spark: SparkSession) -> None:
    rows = [
        ("outcome", "a", 7, "news", 5, [30, -(2**63), 10], [0, 1, 0], [SENT, OUT]),
        ("outcome", "b", 7, "news", 6, [2**63 - 1], [0], [SENT, OUT]),
        ("send", "c", 7, "news", 6, None, None, [SENT]),
        ("outcome", "d", 7, "news", 6, [], [], []),
    ]
    found = spark.createDataFrame(rows, _FACTS).transform(recipients).orderBy("send_id", "status").collect()
    assert [tuple(row) for row in found] == [
        ("a", 7, "news", "push", "sent", None, 5, [30, 10]),
        ("a", 7, "news", "push", "suppressed", "opted_out", 5, [-(2**63)]),
        ("b", 7, "news", "push", "sent", None, 6, [2**63 - 1]),
    ]


def test_position_without_user_or_result_is_ignored(spark: SparkSession) -> None:
    rows = [
        ("outcome", "a", 7, "news", 5, [1, 2, 3, 4], [0, 9, -1], [SENT]),
        ("outcome", "b", 7, "x", 5, [1], [0, 0], [SENT]),
    ]
    found = spark.createDataFrame(rows, _FACTS).transform(recipients).orderBy("send_id").collect()
    assert [row["user_ids"] for row in found] == [[1], [1]]
