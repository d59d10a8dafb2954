"""The job uses no private API of Spark, so that it runs on the next version."""

import ast
from collections.abc import Iterator

from local.devstack.config import ROOT

PRIVATE = {"_jvm", "_jdf", "_jsparkSession", "_jsc", "_gateway", "_jconf", "sessionState"}


def private_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            yield f"{node.lineno}: {node.attr}"
        if isinstance(node, ast.Constant) and node.value in PRIVATE:
            yield f"{node.lineno}: {node.value}"


def test_job_uses_no_private_api_of_spark() -> None:
    files = sorted((ROOT / "spark_metrics").rglob("*.py"))
    assert len(files) > 30
    assert [f"{file.name}:{found}" for file in files for found in private_names(file.read_text())] == []


def test_private_names_are_found() -> None:
    assert [*private_names("spark.sparkContext._jvm\ngetattr(frame, '_jdf')")] == ["1: _jvm", "2: _jdf"]
