"""Measure the records counted per second: `python -m lab.benchmarks.metrics_throughput [--events N] [--rounds N]`.

The benchmark needs `make setup`. It starts and stops its own broker, registry and database, and counts as the job does:
three topics, one record in 10,000 redelivered, the archive on, and a database that is filled with a week of state (ids
and states of sends). In each round the loads take turns; the first round is untimed:

  1 tenant, 20 tenants, 30,000 tenants   events of three recipients, of 300 sends
  sends of one recipient                 each event is a send of its own, like one-time passwords

The JVM compiles for longer than one load. With all rounds of a load in a row, the first load reached 37,042, 47,155 and
49,781 events/s in its rounds, although it was counted untimed before.

Beside them, for 20 tenants, batches of several sizes without the archive, from which it fits the time that executors
cannot shrink, and a stateless query without our promises: each batch is grouped by three grains, which are added to
three tables; no ids, offsets, states, or totals by send. The summary prints the medians, the worst first. It asserts
only the counts, because speed varies on a shared machine.

  --state        rows of ids and of states of sends in the filled database
  --three        also three stateful queries, one groupBy per grain, upserted by foreachBatch, without our promises
  --only         count one load in this form: tenants/recipients/sends, such as 20/500/300
  --where        print the processor time per record of that load by kind of work
  --memory       print the driver's memory after garbage collections while that load is counted
"""

import argparse
import gc
import json
import logging
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lab.benchmarks.metrics_records import Load, metrics_servers, notifications, produce, records_of
from lab.benchmarks.processor_time import spent
from lab.benchmarks.task_times import EVENT_LOG, BatchTimes, batch_times
from local.devstack.config import StackConfig
from local.devstack.provision import register_schemas
from local.devstack.services.spark import spark_jars
from masscomm.domain.grains import Grain
from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.offsets import by_topic
from masscomm.kafka.topics import chain_topics
from spark_metrics.archive.archiver import Archiver
from spark_metrics.common.broker import Broker
from spark_metrics.common.session import kafka_records, spark_session, topic_names
from spark_metrics.common.settings import Settings
from spark_metrics.counting import counted_ids
from spark_metrics.counting.batches import count_batch
from spark_metrics.counting.facts import facts
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.sink import Merged, PostgresSink
from spark_metrics.counting.writers import KnownWriters, registered_ids
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.session import new_session

# JVM options of a cluster, because the devstack's heap and compilers are deliberately small.
JAVA_OPTIONS = "-XX:+UseParallelGC -XX:-UsePerfData"
BATCH, SIZES = 200_000, (2_000, 20_000, 60_000)
CORES_OF_AN_EXECUTOR, EXECUTORS = 4, (1, 2, 4, 8)
_WINDOW_S = Settings.redelivery_window_s
_KEYS = ("club_id", "type", "channel", "measure")
_UPSERT = """
insert into counts_{grain} as t (bucket, club_id, type, channel, measure, count_total)
values (to_timestamp(%s), %s, %s, %s, %s, %s)
on conflict (bucket, club_id, type, channel, measure, lane) do update set count_total = {added} excluded.count_total
"""
_STATES = """
insert into send_states (send_id, chunk_index, channel, block, codes)
select gen_random_uuid(), 0, 'push', 0, decode(repeat('0003', 512), 'hex') from generate_series(1, %s)
"""

type Offsets = dict[tuple[str, int], int]


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def fill(database: str, rows: int) -> None:
    """Fill an empty database with a week of state: ids in two tables, and states of sends."""
    with psycopg.connect(database, autocommit=True) as connection:
        now = connection.execute("select now()").fetchone()
        assert now is not None
        for windows in (1.5, 0.5):
            began = now[0] - windows * timedelta(seconds=_WINDOW_S)
            name = counted_ids.current(connection, began, _WINDOW_S).names[0]
            # The index is built at once: row by row would take five times as long.
            connection.execute(f"drop index {name}_id".encode())
            connection.execute(
                f"insert into {name} select gen_random_uuid(), 'outcome' from generate_series(1, %s)".encode(),  # noqa: S608
                [rows // 2],
            )
            connection.execute(f"create unique index {name}_id on {name} (record_id, source)".encode())
        connection.execute(_STATES.encode(), [rows // 10])
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")


def count_all(
    records: DataFrame,
    facts: Callable[[DataFrame], DataFrame],
    sink: PostgresSink,
    folder: str,
    *,
    merged: Callable[[Merged], None] = lambda _: None,
) -> None:
    """Count a stream of records to its end, as the metrics job does. `merged` is called after each batch."""
    lanes = Lanes(records.sparkSession, 0, recipients=sink.recipients)

    def count(rows: DataFrame, number: int) -> None:
        merged(count_batch(rows, lanes, sink.begin(lanes.number), batch_id=number, sink=sink, learn=set))
        gc.collect()

    run_to_the_end(lanes.rows(facts(records)), count, folder)


def run_to_the_end(rows: DataFrame, batch: Callable[[DataFrame, int], None], folder: str) -> None:
    query = rows.writeStream.foreachBatch(batch).option("checkpointLocation", f"{folder}/c")
    query.trigger(availableNow=True).start().awaitTermination()


class Benchmark:
    """Counts loads with one Spark session.

    Attributes:
        batches: (number of records, time of its end) of each batch of the last `ours`.
    """

    def __init__(self, stack: StackConfig, spark: SparkSession, settings: Settings, state: str) -> None:
        self.stack, self.spark, self.settings, self._state = stack, spark, settings, state
        self._schema_ids = register_schemas(stack.registry_url, chain_topics())
        writers = KnownWriters(HttpSchemaRegistry(stack.registry_url), lambda _: True)
        writers.learn(registered_ids(HttpSchemaRegistry(stack.registry_url)))
        self._facts = partial(facts, writers=writers.known, far_future_ms=FAR_FUTURE_MS)
        self._broker = Broker(stack.kafka_bootstrap)
        self._begin: Offsets = {}
        self._records = 0
        self.load = Load(name="", events=0)
        self.batches: list[tuple[int, float]] = []
        self.measured: list[tuple[int, float, float]] = []

    def fill_topics(self, load: Load) -> None:
        """Produce a load. From now on its records are counted."""
        self.load, self._begin = load, dict(self._broker.ends(topic_names()).end)
        produce(self.stack, records_of(load, self._schema_ids))
        self._records = sum(self._broker.ends(topic_names()).end.values()) - sum(self._begin.values())

    def stream(self, batch: int = BATCH) -> DataFrame:
        settings = replace(self.settings, max_offsets_per_trigger=batch)
        return kafka_records(self.spark, settings, json.dumps(by_topic(self._begin)))

    def ours(self, *, archived: bool = True, batch: int = BATCH, look: Callable[[int], None] | None = None) -> float:
        """Return the records that the job counts per second. `look` is called after each batch with the number of
        counted records.
        """
        self.batches = []
        counted = 0
        with (
            metrics_database(self.stack, template=self._state) as database,
            tempfile.TemporaryDirectory() as folder,
        ):
            sink = PostgresSink(database)
            sink.take_over()
            settings = replace(
                self.settings, database_url=database, archive_dir=f"{folder}/archive", archive_trigger_ms=5_000
            )
            # A session keeps the catalog of the database that it has opened first.
            archiver = Archiver(settings, new_session(self.spark), lambda: None) if archived else None
            if archiver:
                archiver.start(self._begin)

            def merged(done: Merged) -> None:
                nonlocal counted
                counted += done.records
                self.batches.append((done.records, time.time()))
                if look:
                    look(counted)

            took = timed(lambda: count_all(self.stream(batch), self._facts, sink, folder, merged=merged))
            if archiver:
                archiver.stop()
            sink.close()
            self._check(database, repeated=False)
        return self._records / took

    def stateless(self) -> float:
        """Return the records per second of a query that groups each batch by three grains, and promises nothing."""
        with metrics_database(self.stack) as database, tempfile.TemporaryDirectory() as folder:

            def batch(rows: DataFrame, _: int) -> None:
                rows.persist()
                for grain in Grain:
                    summed = [tuple(row) for row in by_grain(rows, grain).collect()]
                    with psycopg.connect(database) as connection:
                        connection.cursor().executemany(_UPSERT.format(grain=grain, added="t.count_total +"), summed)
                rows.unpersist()

            took = timed(lambda: run_to_the_end(counts(self._facts(self.stream())), batch, folder))
            self._check(database, repeated=True)
        return self._records / took

    def three(self) -> float:
        """Return the records per second that three stateful queries count."""
        with metrics_database(self.stack) as database, tempfile.TemporaryDirectory() as folder:

            def upsert(grain: Grain) -> Callable[[DataFrame, int], None]:
                def batch(frame: DataFrame, _: int) -> None:
                    with psycopg.connect(database) as connection:
                        rows = [tuple(row) for row in frame.collect()]
                        connection.cursor().executemany(_UPSERT.format(grain=grain, added=""), rows)

                return batch

            def run() -> None:
                queries = [
                    by_grain(counts(self._facts(self.stream())), grain)
                    .writeStream.outputMode("update")
                    .foreachBatch(upsert(grain))
                    .option("checkpointLocation", f"{folder}/{grain}")
                    .trigger(availableNow=True)
                    .start()
                    for grain in Grain
                ]
                for query in queries:
                    query.awaitTermination()

            took = timed(run)
            self._check(database, repeated=True)
        return self._records / took

    def _check(self, database: str, *, repeated: bool) -> None:
        """Compare the counts with the records; a query without stored ids also counts the repeated ones."""
        expected = sum(notifications(self.load).values())
        if repeated:
            expected += (self._records - self.load.events) * self.load.recipients
        with psycopg.connect(database) as connection:
            for grain in Grain:
                row = connection.execute(f"select sum(count_total) from counts_{grain}".encode()).fetchone()  # noqa: S608
                assert row == (expected,), (grain, row, expected)

    def in_sizes(self, folder: Path) -> "Fit":
        """Count batches of several sizes, and fit the times of their parts."""
        for size in SIZES:
            self.fill_topics(replace(self.load, name=f"batches of {size}", events=5 * size))
            self.ours(archived=False, batch=size)
            # The first batch also starts the query.
            self.measured += [
                (records, began, ended)
                for (_, began), (records, ended) in pairwise(self.batches)
                if records > size // 2
            ]
        return fit(batch_times(folder, self.measured))

    def memory(self, steps: int = 20) -> None:
        """Count the load, print the memory after garbage collections, and the classes that grew."""
        jvm: Any = self.spark.sparkContext._jvm
        java = next(each for each in psutil.Process().children() if "java" in each.name())
        held: dict[str, Counter[str]] = {}
        next_look = 0
        print("    events  heap after GC  JVM resident  Python resident (MB)")

        def look(counted: int) -> None:
            nonlocal next_look
            if counted < next_look:
                return
            next_look = counted + self.load.events // steps
            jvm.System.gc()
            runtime = jvm.java.lang.Runtime.getRuntime()
            used = runtime.totalMemory() - runtime.freeMemory()
            sizes = (used, java.memory_info().rss, psutil.Process().memory_info().rss)
            print(f"{counted:>10,}  " + "  ".join(f"{size / 2**20:>13,.0f}" for size in sizes), flush=True)
            held["first" if counted < self.load.events // 4 else "last"] = bytes_by_class(java.pid)

        self.ours(archived=False, look=look)
        grown = held["last"]
        grown.subtract(held["first"])
        print("grown since a quarter of them was counted (MB):")
        for name, size in grown.most_common(8):
            print(f"{size / 2**20:>8,.1f}  {name}")

    def where(self) -> None:
        """Count the load and archive it, and print the processor time of both by kind of work."""
        before, rate, after = spent(), self.ours(), spent()
        print(f"{rate:,.0f} events/s; microseconds of processor time a record:")
        each = {kind: (seconds - before.get(kind, 0.0)) / self.load.events * 1e6 for kind, seconds in after.items()}
        for kind, spent_on in sorted(each.items(), key=lambda item: -item[1]):
            print(f"{spent_on:8.2f}  {kind}")
        print(f"{sum(each.values()):8.2f}  together", flush=True)


def bytes_by_class(pid: int) -> Counter[str]:
    """Return the bytes of each class in a JVM's heap after a garbage collection."""
    shown = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for size, name in re.findall(r"^ *\d+: +\d+ +(\d+) +(\S+)", shown, re.MULTILINE):
        found[name] += int(size)
    return found


def counts(facts: DataFrame) -> DataFrame:
    """Return one row for each count of the countable records."""
    return facts.where(F.col("problem").isNull()).select("at_ms", "club_id", "type", F.inline("counts"))


def by_grain(rows: DataFrame, grain: Grain) -> DataFrame:
    bucket = F.expr(f"at_ms div {grain.seconds * 1000} * {grain.seconds}").alias("bucket")
    return rows.groupBy(bucket, *_KEYS).agg(F.sum("count_total"))


@dataclass(frozen=True)
class Fit:
    """The time of a batch of n records is fixed_s + record_s * n on the driver, and task_s * n of tasks, of which the
    longest takes the share `longest`.
    """

    fixed_s: float
    record_s: float
    task_s: float
    longest: float

    def rate(self, records: int, cores: int) -> float:
        # A slope below 0 is noise, and would promise too much.
        return records / (self.fixed_s + (max(0.0, self.record_s) + self.task_s / cores) * records)

    def show(self) -> None:
        print(f"driver: {self.fixed_s:.2f} s a batch + {self.record_s * 1e6:.2f} us a record")
        print(f"tasks: {self.task_s * 1e6:.1f} us a record; the longest backend: {self.longest:.0%} of a batch's time")
        for executors in EXECUTORS:
            rate = self.rate(BATCH, executors * CORES_OF_AN_EXECUTOR)
            print(f"  {executors} executors of {CORES_OF_AN_EXECUTOR} cores would reach {rate:,.0f} events/s")


def fit(times: list[BatchTimes]) -> Fit:
    records = np.array([each.records for each in times])
    slope, fixed = np.polyfit(records, [each.driver_s for each in times], 1)
    task, _ = np.polyfit(records, [each.task_s for each in times], 1)
    longest = statistics.median(each.longest_s / each.all_s for each in times if each.records == records.max())
    return Fit(float(fixed), float(slope), float(task), longest)


def report(runs: dict[str, list[float]]) -> None:
    """Print the medians, the worst first."""
    medians = {name: statistics.median(rates) for name, rates in runs.items()}
    for name, median in sorted(medians.items(), key=lambda item: item[1]):
        print(f"{name:32} {median:>10,.0f} events/s  ({', '.join(f'{rate:,.0f}' for rate in runs[name])})")
    for name in OTHERS:
        if name in medians:
            print(f"{medians[USUAL] / medians[name]:.2f} times {name}")
    print(json.dumps({name: round(median) for name, median in medians.items()}))


USUAL, WITHOUT_ARCHIVE, STATELESS, THREE = "20 tenants", "without the archive", "stateless", "three stateful queries"
OTHERS = (WITHOUT_ARCHIVE, STATELESS, THREE)


def loads(events: int) -> list[Load]:
    return [
        Load(name="1 tenant", events=events, tenants=1),
        Load(name="30,000 tenants", events=events, tenants=30_000, sends=30_000),
        Load(name="sends of one recipient", events=events // 2, recipients=1, sends=events // 2),
        Load(name=USUAL, events=events),
    ]


def measure(bench: Benchmark, events: int, rounds: int, *, three: bool) -> dict[str, list[float]]:
    """Return the events per second of each load and way, one figure per round."""
    others = {WITHOUT_ARCHIVE: lambda: bench.ours(archived=False), STATELESS: bench.stateless}
    others |= {THREE: bench.three} if three else {}
    runs: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for load in loads(events):
            bench.fill_topics(load)
            for name, way in ({load.name: bench.ours} | (others if load.name == USUAL else {})).items():
                rate = way()
                print(f"{f'round {number}' if number else 'warm-up'}, {name}: {rate:,.0f} events/s", flush=True)
                if number:
                    runs[name].append(rate)
    return runs


def settings_of(stack: StackConfig, batch: int = BATCH) -> Settings:
    """Return the settings of a metrics job on this stack, without a database."""
    return Settings(
        bootstrap_servers=stack.kafka_bootstrap,
        registry_url=stack.registry_url,
        database_url="",
        jars=spark_jars(),
        max_offsets_per_trigger=batch,
        driver_memory="2g",
        java_options=JAVA_OPTIONS,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--state", type=int, default=2_000_000, help="ids in the filled database")
    parser.add_argument("--three", action="store_true", help="also three stateful queries")
    parser.add_argument("--only", default="", help="one load: tenants/recipients/sends")
    parser.add_argument("--where", action="store_true", help="print the processor time by kind of work of that load")
    parser.add_argument("--memory", action="store_true", help="print the driver's memory while it counts that load")
    parser.add_argument("--verbose", action="store_true", help="print the duration of each batch")
    chosen = parser.parse_args()
    if chosen.verbose:
        logging.getLogger("spark_metrics.counting.batches").setLevel(logging.INFO)
        logging.basicConfig()
    with metrics_servers() as (stack, folder), metrics_database(stack) as filled:
        fill(filled, chosen.state)
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{EVENT_LOG.format(folder=folder)} pyspark-shell"
        spark = spark_session(settings_of(stack))
        gc.collect()
        gc.freeze()
        bench = Benchmark(stack, spark, settings_of(stack), filled)
        if chosen.only:
            tenants, recipients, sends = map(int, chosen.only.split("/"))
            load = Load(name=chosen.only, events=chosen.events, tenants=tenants, recipients=recipients, sends=sends)
            bench.fill_topics(load)
            print(f"warm-up: {bench.ours(archived=False):,.0f} events/s", flush=True)
            if chosen.memory:
                bench.memory()
            for _ in range(chosen.rounds if not chosen.memory else 0):
                if chosen.where:
                    bench.where()
                else:
                    print(f"{bench.ours():,.0f} events/s", flush=True)
        else:
            runs = measure(bench, chosen.events, chosen.rounds, three=chosen.three)
            found = bench.in_sizes(folder)
            report(runs)
            found.show()
        spark.stop()


if __name__ == "__main__":
    main()
