from typing import Any

import pytest
from py4j.java_gateway import JVMView  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.spark.session import PY4J_SOCKETS

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)


def test_column_expressions_need_no_class_lookup_in_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark would look up the names several times for each column of each batch."""
    asked: list[str] = []
    ask = JVMView.__getattr__

    def noted(view: Any, name: str) -> Any:
        asked.append(name)
        return ask(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", noted)
    frame = spark.range(3).select(-F.col("id"), F.lit(1) + F.col("id")).persist()
    frame.foreachPartition(lambda _: None)
    frame.unpersist()
    assert asked == []
