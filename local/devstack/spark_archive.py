"""Writes the archive of the classes that Spark's driver loads (class data sharing, JEP 350); `make setup` runs it."""

import os
from typing import Any

from pyspark import SparkContext

from local.devstack.services.spark import DRIVER_ARCHIVE, QUIET, spark_jars
from spark_metrics.common.session import spark_session
from spark_metrics.common.settings import Settings


def main() -> None:
    """Run a driver whose JVM writes the archive when it ends."""
    draft = DRIVER_ARCHIVE.with_suffix(".draft")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={draft} {QUIET}"
    spark = spark_session(Settings(bootstrap_servers="", registry_url="", database_url="", jars=spark_jars()))
    # A stream and a batch, so that the archive has the classes of both.
    stream = spark.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True).start()
    stream.awaitTermination()
    spark.range(9).selectExpr("id % 2 as half", "to_json(struct(id)) as row").groupBy("half").count().collect()
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    draft.replace(DRIVER_ARCHIVE)


if __name__ == "__main__":
    main()
