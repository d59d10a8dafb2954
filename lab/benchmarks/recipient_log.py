"""Measure the cost of the log of recipients: `python -m lab.benchmarks.recipient_log [--events 2000] [--rounds 3]`.

The benchmark needs `make setup`; it starts and stops its own broker, registry and database. It counts the same topic of
outcome records of 500 recipients with the log and without it, in turns, and prints the recipients per second: medians
of the rounds, and their ratio. Each round reads the whole topic.
"""

import argparse
import json
import logging
import statistics
import tempfile
from functools import partial

import psycopg
from pyspark.sql import SparkSession

from lab.benchmarks.metrics_records import Load, metrics_servers, produce, records_of
from lab.benchmarks.metrics_throughput import count_all, settings_of, timed
from local.devstack.config import StackConfig
from local.devstack.provision import register_schemas
from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.topics import chain_topics
from spark_metrics.common.session import kafka_records, spark_session
from spark_metrics.common.settings import Settings
from spark_metrics.counting.facts import facts
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import load_views
from spark_metrics.counting.writers import KnownWriters, registered_ids
from tests.support.servers.metrics_database import metrics_database

RECIPIENTS, SENDS = 500, 300


def count(stack: StackConfig, spark: SparkSession, settings: Settings, events: int, *, logged: bool) -> float:
    """Return the recipients counted per second."""
    known = KnownWriters(HttpSchemaRegistry(stack.registry_url), lambda _: True)
    known.learn(registered_ids(HttpSchemaRegistry(stack.registry_url)))
    records = kafka_records(spark, settings, "earliest")
    logged_facts = partial(facts, writers=known.known, far_future_ms=FAR_FUTURE_MS, recipients=logged)
    with metrics_database(stack) as database, tempfile.TemporaryDirectory() as folder:
        sink = PostgresSink(database, views=load_views(settings.views), recipients=logged)
        sink.take_over()
        took = timed(lambda: count_all(records, logged_facts, sink, folder))
        sink.close()
        with psycopg.connect(database) as connection:
            row = connection.execute(
                "select (select sum(count_total) from counts_minute), count(*) from recipient_log"
            ).fetchone()
            assert row == (events * RECIPIENTS, events * RECIPIENTS if logged else 0), row
        return events * RECIPIENTS / took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=2_000, help=f"outcome records of {RECIPIENTS} recipients")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1_000, help="records a micro-batch")
    parser.add_argument("--verbose", action="store_true", help="print the duration of each batch")
    chosen = parser.parse_args()
    if chosen.verbose:
        logging.getLogger("spark_metrics.counting.batches").setLevel(logging.INFO)
        logging.basicConfig()
    with metrics_servers() as (stack, _):
        schema_ids = register_schemas(stack.registry_url, chain_topics())
        load = Load(name="log", events=chosen.events, recipients=RECIPIENTS, sends=SENDS, outcomes_only=True)
        produce(stack, records_of(load, schema_ids))
        settings = settings_of(stack, chosen.batch)
        spark = spark_session(settings)
        print(f"warm-up: {count(stack, spark, settings, chosen.events, logged=True):,.0f} recipients/s")
        runs: dict[str, list[float]] = {"with the log": [], "without": []}
        for _ in range(chosen.rounds):
            for name, rates in runs.items():
                rates.append(count(stack, spark, settings, chosen.events, logged=name == "with the log"))
        medians = {name: statistics.median(rates) for name, rates in runs.items()}
        for name, median in medians.items():
            shown = ", ".join(f"{rate:,.0f}" for rate in runs[name])
            print(f"{name:14} {median:>10,.0f} recipients/s  ({shown})")
        print(json.dumps({name: round(rate) for name, rate in medians.items()}))
        spark.stop()


if __name__ == "__main__":
    main()
