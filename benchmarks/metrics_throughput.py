"""Measure the records counted per second: `python -m benchmarks.metrics_throughput [--events N] [--rounds 3]`.

The benchmark needs `make setup`. It starts and stops its own broker, registry and database, and measures in one run on
one machine:

  ours           the metrics job's own batches: Kafka, decoding, three grains, totals by send, stored record ids,
                 one transaction per batch
  with archive   the same, and every record is archived concurrently
  three          the usual design of three stateful streaming queries, one groupBy per grain, upserted by foreachBatch,
                 without protection against redeliveries, totals by send, and views
  row a commit   one upsert and one commit per record, into one table, on one connection, like a consumer that counts
                 each record on arrival and stores no ids
  all a commit   the guarantees of `ours` for one record at a time: its id and its three grains in one statement and
                 one commit

Events are outcome records of three recipients, slices of a few hundred sends. `ours` counts the whole topic, and the
other streams count the end of the topic, in several micro-batches: once untimed, so that the JVM has compiled the code,
and then once per round. The benchmark prints the medians of the rounds, with ratios. It asserts only the counts,
because speed varies on a shared machine.

  --memory       count this number of events once and print the driver's memory after garbage collections, in even steps
  --recipients   recipients per event; the last line of the output has the recipients counted per second
  --sends        number of sends to which the events belong; if it equals --events, each event is a separate send, like
                 one-time passwords
  --where        print the processor time per record of `ours` and `three` by kind of work, after compilation
  --java         further JVM options, such as -XX:StartFlightRecording=filename=/tmp/metrics.jfr
  --batch        records per micro-batch, as SPARK_MAX_OFFSETS_PER_TRIGGER
"""

import argparse
import gc
import io
import json
import logging
import random
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import psutil
import psycopg
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.processor_time import spent
from devstack.config import StackConfig
from devstack.provision import create_topics, register_schemas
from devstack.services.spark import spark_jars
from devstack.stack import Stack
from masscomm.domain import ids
from masscomm.domain.grains import Grain
from masscomm.domain.limits import FAR_FUTURE_MS
from masscomm.kafka.avro import HttpSchemaRegistry, own_schema
from masscomm.kafka.offsets import by_topic
from masscomm.kafka.topics import chain_topics
from spark_metrics.archiver import Archiver
from spark_metrics.batches import count_batch
from spark_metrics.broker import Broker
from spark_metrics.facts import Facts, facts
from spark_metrics.lanes import Lanes
from spark_metrics.session import kafka_records, spark_session, topic_names
from spark_metrics.settings import Settings
from spark_metrics.sink import Merged, PostgresSink
from spark_metrics.sums import exploded
from spark_metrics.views import load_views
from spark_metrics.writers import KnownWriters, registered_ids
from tests.support.servers.metrics_database import metrics_database

# JVM options of a cluster, because the devstack's heap and compilers are deliberately small.
JAVA_OPTIONS = "-XX:+UseParallelGC -XX:-UsePerfData -XX:-DontCompileHugeMethods"
SUM = {grain: f"select sum(count_total) from counts_{grain}".encode() for grain in Grain}  # noqa: S608
_MADE_AT_ONCE = 20_000
_OUTCOME = fastavro.parse_schema(dict(own_schema("NotificationOutcome")))
UPSERT = """
insert into counts_{grain} (bucket, club_id, type, channel, measure, count_total) values (to_timestamp(%s), %s, %s, %s,
%s, %s) on conflict (bucket, club_id, type, channel, measure) do update set count_total = excluded.count_total
"""
_ADD = """
insert into counts_{grain} as t (bucket, club_id, type, channel, measure, count_total)
select date_trunc('{grain}', to_timestamp(%(at_s)s), 'UTC'), %(club_id)s, 'news', 'push', 'sent', 1 from new
on conflict (bucket, club_id, type, channel, measure) do update set count_total = t.count_total + excluded.count_total
"""
ALL = f"""
with new as (insert into one_by_one (id) values (%(id)s) on conflict do nothing returning id),
in_minute as ({_ADD.format(grain="minute")}), in_hour as ({_ADD.format(grain="hour")})
{_ADD.format(grain="day")}
"""  # noqa: S608


def outcome(rng: random.Random, sends: int, number: int, recipients: int, at_ms: int) -> dict[str, Any]:
    """Return the outcome record with this number: of `recipients` recipients, and of one of `sends` sends."""
    place, send = number // sends * recipients, number % sends
    send_id = ids.chunk_id("benchmark", send)
    return {
        "record_id": ids.derived_id(send_id, "outcome.delivery", "push", place, place + recipients),
        "parent_id": send_id,
        "step": "delivery",
        "send_id": send_id,
        "chunk_index": place // 10_000,
        "range_start": place % 10_000,
        "range_end": place % 10_000 + recipients,
        "club_id": send % 20,
        "type": ("news", "newsletter", "security_alert")[send % 3],
        "channel": "push",
        "timestamp": at_ms - rng.randrange(600_000),
        "requested_at": at_ms,
        "positions": list(range(place % 10_000, place % 10_000 + recipients)),
        "user_ids": list(range(recipients)),
        "results": [{"status": "sent", "reason": None, "count": recipients}],
        "result_index": [0] * recipients,
    }


def encoded(schema_id: int, value: dict[str, Any]) -> bytes:
    """Return an outcome record in the Confluent wire format."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _OUTCOME, value)
    return b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue()


def outcomes(schema_id: int, events: int, recipients: int, sends: int) -> Iterator[bytes]:
    """Yield encoded outcome records of the sends in turns, each with positions that no earlier record has."""
    begins = range(0, events, _MADE_AT_ONCE)
    made = partial(_outcomes_from, schema_id, events, recipients, sends, int(time.time() * 1000))
    with get_context("spawn").Pool() as pool:
        for some in pool.imap(made, begins):
            yield from some


def _outcomes_from(schema_id: int, events: int, recipients: int, sends: int, at_ms: int, begin: int) -> list[bytes]:
    rng = random.Random(begin)
    numbers = range(begin, min(begin + _MADE_AT_ONCE, events))
    return [encoded(schema_id, outcome(rng, sends, number, recipients, at_ms)) for number in numbers]


def produce(config: StackConfig, values: Iterable[bytes], compression: str = "lz4") -> None:
    """Produce the records to the topic `outcome`. The functions' own compression is lz4 (masscomm.kafka.producer)."""
    producer = Producer(
        {
            "bootstrap.servers": config.kafka_bootstrap,
            "compression.type": compression,
            "linger.ms": 50,
            "queue.buffering.max.messages": 10**6,
        }
    )
    for number, value in enumerate(values):
        producer.produce("outcome", value, key=number.to_bytes(8, "big"))
        if number % 10_000 == 0:
            producer.poll(0.5 if len(producer) > 500_000 else 0)
    assert producer.flush(60) == 0


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def count_all(
    records: DataFrame,
    facts: Facts,
    sink: PostgresSink,
    folder: str,
    *,
    merged: Callable[[Merged], None] = lambda _: None,
) -> None:
    """Count a stream of records to its end, as the metrics job does. `merged` is called after each batch."""

    lanes = Lanes(
        records.sparkSession, records.sparkSession.sparkContext.defaultParallelism, recipients=sink.recipients
    )

    def count(frame: DataFrame, number: int) -> None:
        frame.sparkSession.conf.set("spark.sql.adaptive.enabled", True)
        counted = count_batch(frame, facts, lanes, attempt=sink.begin(), batch_id=number, sink=sink, learn=set)
        assert counted is not None
        merged(counted)
        gc.collect()

    query = records.writeStream.foreachBatch(count).option("checkpointLocation", f"{folder}/c")
    query.trigger(availableNow=True).start().awaitTermination()


def bytes_by_class(pid: int) -> Counter[str]:
    """Return the bytes of each class in a JVM's heap after a garbage collection."""
    shown = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for size, name in re.findall(r"^ *\d+: +\d+ +(\d+) +(\S+)", shown, re.MULTILINE):
        found[name] += int(size)
    return found


class Benchmark:
    """The ways to count one filled topic with one Spark session, and their measurement."""

    def __init__(self, stack: StackConfig, spark: SparkSession, settings: Settings, recipients: int) -> None:
        self.stack, self.spark, self.settings, self.recipients = stack, spark, settings, recipients
        writers = KnownWriters(HttpSchemaRegistry(stack.registry_url), lambda _: True)
        writers.learn(registered_ids(stack.registry_url))
        self.writers = writers.known

        self.ends = Broker(stack.kafka_bootstrap).ends(topic_names())
        # (records, seconds) of each batch of `ours`; the seconds are those since the end of the previous batch.
        self.batches: list[tuple[int, float]] = []

    def last(self, events: int) -> tuple[str, int]:
        """Return the start of the last `events` events as Spark's startingOffsets, and their exact number."""
        begin = self.begin(events)
        return json.dumps(by_topic(begin)), sum(self.ends.end.values()) - sum(begin.values())

    def begin(self, events: int) -> dict[tuple[str, int], int]:
        share = max(0.0, 1 - events / sum(self.ends.end.values()))
        return {place: round(end * share) for place, end in self.ends.end.items()}

    def stream(self, starting: str) -> DataFrame:
        return kafka_records(self.spark, self.settings, starting)

    def ours(self, events: int, *, archived: bool, look: Callable[[int], None] | None = None) -> float:
        """Return the events that `ours` counts per second. `look` is called after each batch with the number of counted
        records.
        """
        starting, remaining = self.last(events)
        counted, before = 0, time.perf_counter()
        with metrics_database(self.stack) as database, tempfile.TemporaryDirectory() as folder:
            sink = PostgresSink(database, views=load_views(self.settings.views))
            sink.take_over()
            settings = replace(
                self.settings, database_url=database, archive_dir=f"{folder}/archive", archive_trigger_ms=5_000
            )
            archiver = Archiver(settings, self.spark) if archived else None
            if archiver:
                archiver.start(self.begin(events))

            def merged(batch: Merged) -> None:
                nonlocal counted, before
                counted += batch.records
                now = time.perf_counter()
                self.batches.append((batch.records, now - before))
                before = now
                if look:
                    look(counted)

            facts = Facts(writers=self.writers, far_future_ms=FAR_FUTURE_MS)
            took = timed(lambda: count_all(self.stream(starting), facts, sink, folder, merged=merged))
            if archiver:
                archiver.stop()
            self._check(database, remaining)
            sink.close()
            return remaining / took

    def three(self, events: int) -> float:
        """Return the events per second that three stateful queries count, over the last `events` events."""
        starting, remaining = self.last(events)
        with metrics_database(self.stack) as database, tempfile.TemporaryDirectory() as folder:

            def upsert(grain: str) -> Callable[[DataFrame, int], None]:
                def batch(frame: DataFrame, _: int) -> None:
                    rows = [tuple(row) for row in frame.collect()]
                    with psycopg.connect(database) as connection:
                        connection.cursor().executemany(UPSERT.format(grain=grain), rows)

                return batch

            def run() -> None:
                queries = []
                for grain, step in ((grain, grain.seconds) for grain in Grain):
                    counted = (
                        self.stream(starting)
                        .transform(facts, writers=self.writers, far_future_ms=FAR_FUTURE_MS)
                        .transform(exploded)
                        .where(F.col("measure").isNotNull())
                        .groupBy(
                            F.expr(f"at_ms div {step * 1000} * {step}").alias("bucket"),
                            *("club_id", "type", "channel", "measure"),
                        )
                        .agg(F.sum("count_total"))
                    )
                    writer = counted.writeStream.outputMode("update").foreachBatch(upsert(grain))
                    writer = writer.option("checkpointLocation", f"{folder}/{grain}")
                    queries.append(writer.trigger(availableNow=True).start())
                for query in queries:
                    query.awaitTermination()

            took = timed(run)
            self._check(database, remaining)
            return remaining / took

    def _check(self, database: str, events: int) -> None:
        with psycopg.connect(database) as connection:
            for grain in Grain:
                row = connection.execute(SUM[grain]).fetchone()
                assert row is not None
                assert row[0] == events * self.recipients, (grain, row)

    def row_a_commit(self, rows: int) -> float:
        """Return the rows per second with one upsert and one commit per row."""
        with metrics_database(self.stack) as database, psycopg.connect(database, autocommit=True) as connection:
            statement = UPSERT.format(grain="minute")

            def run() -> None:
                for n in range(rows):
                    connection.execute(statement.encode(), (n % 600 * 60, n % 20, "news", "push", "sent", 1))

            return rows / timed(run)

    def all_a_commit(self, records: int) -> float:
        """Return the records per second if each record is deduplicated and counted in three grains in its own
        commit.
        """
        with metrics_database(self.stack) as database, psycopg.connect(database, autocommit=True) as connection:
            connection.execute("create table one_by_one (id uuid primary key)")

            def run() -> None:
                for n in range(records):
                    parameters = {
                        "id": UUID(int=random.getrandbits(128), version=4),
                        "at_s": n % 600 * 60,
                        "club_id": n % 20,
                    }
                    connection.execute(ALL.encode(), parameters)

            took = timed(run)
            for statement in SUM.values():
                assert connection.execute(statement).fetchone() == (records,)
            return records / took

    def memory(self, events: int, steps: int) -> None:
        """Count the events once; print the memory after a garbage collection about `steps` times, and the classes that
        grew.

        The memory is read while the next batch is staged and waits, so it does not include work on that batch.
        """
        jvm: Any = self.spark.sparkContext._jvm
        tracker = self.spark.sparkContext.statusTracker()
        # The heap by class at the last reading within the first quarter of the events, and at the last reading.
        held: dict[str, Counter[str]] = {}
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        java = next(process for process in processes if "org.apache.spark.deploy.SparkSubmit" in process.cmdline())
        next_look = 0
        print("    events  heap after GC  JVM resident  Python resident (MB)")

        def look(counted: int) -> None:
            nonlocal next_look
            if counted < next_look:
                return
            next_look = counted + events // steps
            quiet = 0
            while quiet < 10:
                quiet = 0 if tracker.getActiveJobsIds() else quiet + 1
                time.sleep(0.1)
            jvm.System.gc()
            runtime = jvm.java.lang.Runtime.getRuntime()
            used = runtime.totalMemory() - runtime.freeMemory()
            sizes = (used, java.memory_info().rss, psutil.Process().memory_info().rss)
            print(f"{counted:>10,}  " + "  ".join(f"{size / 2**20:>13,.0f}" for size in sizes), flush=True)
            held["first" if counted < events // 4 else "last"] = bytes_by_class(java.pid)

        rate = self.ours(events, archived=False, look=look)
        print(f"{rate:,.0f} events/s, collections included")
        print("grown since a quarter of them was counted (MB):")
        grown = held["last"]
        grown.subtract(held["first"])
        for name, size in grown.most_common(8):
            print(f"{size / 2**20:>8,.1f}  {name}")

    def where(self, events: int, *, three: bool) -> None:
        """Count the events in each way, first untimed for compilation, and print the processor time by kind of work."""
        ways: dict[str, Callable[[], float]] = {"ours": lambda: self.ours(events, archived=False)}
        if three:
            ways["three"] = lambda: self.three(events)
        for name, way in ways.items():
            print(f"warm-up, {name}: {way():,.0f} events/s", flush=True)
        for name, way in ways.items():
            before, rate, after = spent(), way(), spent()
            print(f"{name}: {rate:,.0f} events/s; microseconds of processor time a record:")
            each = {kind: (seconds - before.get(kind, 0.0)) / events * 1e6 for kind, seconds in after.items()}
            for kind, spent_on in sorted(each.items(), key=lambda item: -item[1]):
                print(f"{spent_on:8.2f}  {kind}")
            print(f"{sum(each.values()):8.2f}  together", flush=True)


def rounds(
    bench: Benchmark, events: int, others: int, number: int, *, three: bool, archive: bool
) -> dict[str, list[float]]:
    """Return the events per second of each way, one figure per round."""

    def ours() -> float:
        bench.batches.clear()
        rate = bench.ours(events, archived=False)
        shown = statistics.median(records / seconds for records, seconds in bench.batches)
        print(f"ours: {len(bench.batches)} batches, {shown:,.0f} events/s in the median batch", flush=True)
        return rate

    ways: dict[str, Callable[[], float]] = {
        "ours": ours,
        "row a commit": lambda: bench.row_a_commit(2_000),
        "all a commit": lambda: bench.all_a_commit(2_000),
    }
    if archive:
        ways["with archive"] = lambda: bench.ours(others, archived=True)
    if three:
        ways["three"] = lambda: bench.three(others)
    for name, way in ways.items():
        print(f"warm-up, {name}: {way():,.0f} events/s", flush=True)
    runs: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(number):
        for name, way in ways.items():
            runs[name].append(way())
    return runs


def report(runs: dict[str, list[float]], recipients: int) -> None:
    medians = {name: statistics.median(values) for name, values in runs.items()}
    for name, median in medians.items():
        shown = ", ".join(f"{value:,.0f}" for value in runs[name])
        print(f"{name:14} {median:>10,.0f} events/s  ({shown})  ours is {medians['ours'] / median:.2f} times that")
    print(f"recipients/s: {medians['ours'] * recipients:,.0f}")
    print(json.dumps({name: round(value) for name, value in medians.items()}))


def settings_of(stack: StackConfig, batch: int) -> Settings:
    """Return the settings of a metrics job on this stack, without a database. `batch` is the number of records per
    micro-batch.
    """
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
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--others", type=int, default=600_000, help="number of last events that the other ways count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recipients", type=int, default=3, help="of each event")
    parser.add_argument("--sends", type=int, default=300, help="that the events are of, in turns")
    parser.add_argument("--batch", type=int, default=200_000, help="records a micro-batch")
    parser.add_argument("--compression", default="lz4", help="of the topic's records; the chain's is lz4")
    parser.add_argument("--skip-three", action="store_true")
    parser.add_argument("--skip-archive", action="store_true")
    parser.add_argument(
        "--memory", action="store_true", help="print the driver's memory while counting this number of events"
    )
    parser.add_argument("--where", action="store_true", help="print the processor time by kind of work")
    parser.add_argument("--java", default="", help="further options of the JVM")
    parser.add_argument("--verbose", action="store_true", help="print the duration of each batch")
    chosen = parser.parse_args()
    if chosen.verbose:
        logging.getLogger("spark_metrics.batches").setLevel(logging.INFO)
        logging.basicConfig()
    with tempfile.TemporaryDirectory() as folder:
        stack = StackConfig.on_free_ports(Path(folder))
        with Stack(stack, ["kafka", "registry", "postgres"]):
            create_topics(stack.kafka_bootstrap, chain_topics())
            schema_id = register_schemas(stack.registry_url, chain_topics())["outcome-value"]
            values = outcomes(schema_id, chosen.events, chosen.recipients, chosen.sends)
            produce(stack, values, chosen.compression)
            settings = settings_of(stack, chosen.batch)
            settings = replace(settings, java_options=f"{settings.java_options} {chosen.java}")
            spark = spark_session(settings)
            # The collections after each merge skip the objects that exist now, as in the job.
            gc.collect()
            gc.freeze()
            bench = Benchmark(stack, spark, settings, chosen.recipients)
            print(
                f"{chosen.events:,} events of {chosen.recipients} recipients, of {chosen.sends:,} sends,"
                f" {chosen.batch:,} a batch",
                flush=True,
            )
            if chosen.memory:
                bench.memory(chosen.events, steps=20)
            elif chosen.where:
                bench.where(chosen.events, three=not chosen.skip_three)
            else:
                others = min(chosen.others, chosen.events)
                three, archive = not chosen.skip_three, not chosen.skip_archive
                runs = rounds(bench, chosen.events, others, chosen.rounds, three=three, archive=archive)
                report(runs, chosen.recipients)
            spark.stop()


if __name__ == "__main__":
    main()
