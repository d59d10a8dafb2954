"""The streaming job: `python -m spark_metrics.job`. Kafka in, Postgres out; what lies between stands in transforms.py.

Settings come from the environment (spark_metrics.settings). It waits for what is not there yet, goes on from its
checkpoint, and stops on SIGTERM or Ctrl-C with status 0. Status 1: something stayed away too long, or is wrong; the
last line says what.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from masscomm import metrics
from masscomm.authentication import kafka_settings, spark_kafka_options
from masscomm.errors import MasscommError, Retry, Stop
from masscomm.metric_names import METRICS_AGE
from masscomm.wire import HttpSchemaRegistry
from spark_metrics.archive import Archive
from spark_metrics.archive_mark import claim
from spark_metrics.batches import count_batch, facts_of
from spark_metrics.broker import Broker
from spark_metrics.rehearsal import rehearse
from spark_metrics.settings import EMR, Settings, settings_from
from spark_metrics.sink import PostgresSink, StagingLost, StatusWriter
from spark_metrics.sources import SOURCES
from spark_metrics.staging import SMALL, Staging
from spark_metrics.transforms import Facts
from spark_metrics.views import load_views
from spark_metrics.watermark import Watermark
from spark_metrics.writers import KnownWriters, registered_ids

_log = logging.getLogger("spark_metrics")

_TABLES = (
    *("counts_minute", "counts_hour", "counts_day", "sends", "send_totals", "send_states", "stream_status"),
    *("archive_batches", "stream_views", "recipient_log", "staging_attempts"),
)
_LOOK_EVERY_S = 0.5
_PAUSE_S = 0.5
_FINISH_BATCH_S = 15.0
_FETCH_WAIT_MS = 10
_POLL_RECORDS = 5_000
_FORGET_EVERY_S = 600.0
_TELL_AGE_EVERY_S = 60.0

# A corrupt length must not be believed: one record of a few bytes could otherwise ask for gigabytes and end the
# process. Records are at most 1 MiB, and no item takes less than a byte. The fast reader decodes in a third less time.
AVRO_OPTIONS = (
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1100000"
    " -Dorg.apache.avro.limits.bytes.maxLength=2200000"
    " -Dorg.apache.avro.limits.string.maxLength=2200000"
    " -Dorg.apache.avro.fastread=true"
)


class NewWriters(Exception):
    """The batch holds records of schemas that were learned just now: it must be read again."""


def topic_names() -> list[str]:
    """Every topic the job reads."""
    return [topic for source in SOURCES for topic in source.topics()]


def spark_session(settings: Settings) -> SparkSession:
    """A small Spark: no UI, loopback only, two shuffle partitions. On EMR, what was submitted says where it runs."""
    options = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Ids and positions are collected into lists, a group a partition or block: sorting first is slower.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        "spark.sql.adaptive.enabled": "false",
        # Of a header that stands in a record twice the last counts.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # A value that does not fit becomes null and is quarantined; an exception would stop the stream at one record.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.ui.retainedExecutions": "10",
        # The plan as a text, written for a UI that is off.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.debug.maxToStringFields": "5",
        # A stack trace for every expression of every batch, for messages that nobody reads here.
        "spark.sql.dataFrameQueryContext.enabled": "false",
    }
    builder = SparkSession.builder.appName("masscomm metrics")
    if settings.master != EMR:
        builder = builder.master(settings.master)
        options |= _on_one_machine(settings)
    if settings.master.startswith("local"):
        # Executors are children of this very process; "python3" may be another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _on_one_machine(settings: Settings) -> dict[str, str]:
    logging_file = files("spark_metrics").joinpath("log4j2.properties")
    return {
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": (
            f"{settings.java_options} {AVRO_OPTIONS} -Dlog4j2.configurationFile={logging_file}"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        **({"spark.jars": settings.jars} if settings.jars else {}),
    }


def kafka_records(spark: SparkSession, settings: Settings, starting: str) -> DataFrame:
    """The stream of all topics' records; starting: where it begins without a checkpoint, as Spark's startingOffsets."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("subscribe", ",".join(topic_names()))
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("failOnDataLoss", settings.fail_on_data_loss)
        .option("includeHeaders", True)
        # A consumer asks where its partition ends after each fetch, and the broker answers a connection in order: the
        # default of 500 ms at the end of a partition would be spent once a partition and batch.
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        # Spark's reader polls whenever it has gone through what the last poll gave: as much as one fetch may bring.
        .option("kafka.max.poll.records", _POLL_RECORDS)
        .options(**spark_kafka_options())
        .load()
    )


class Job:
    """One run of the job, from waiting for its dependencies to its end."""

    def __init__(self, settings: Settings) -> None:
        self._told_age: float | None = None
        self._settings = settings
        self._stop = threading.Event()
        self._broker = Broker(settings.bootstrap_servers, **kafka_settings())
        self._sink = PostgresSink(
            settings.database_url,
            window_s=settings.redelivery_window_s,
            views=load_views(settings.views),
            recipients=settings.recipient_log,
        )
        # The batches run on a thread of Spark's, and a connection belongs to one thread.
        self._status_sink = PostgresSink(settings.database_url)
        self._staging = Staging()
        self._facts: Facts | None = None
        self._forgot = time.monotonic()
        self._looked: tuple[float, int] | None = None

    def stop(self) -> None:
        """End after the batch that is running; may be called from a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Until stop() is called. Errors: Retry (something stayed away), Stop (something is wrong)."""
        began = time.monotonic()
        # The slowest first: Spark needs nobody to come up, and the rest comes up meanwhile.
        spark = spark_session(self._settings)
        try:
            for view in self._sink.views:
                view.check_transform(spark)
            self._await("Postgres and its tables", self._tables_are_there)
            epoch = self._await("Postgres and its tables", self._sink.take_over)
            status = StatusWriter(self._status_sink, epoch)
            self._await("Kafka and its topics", self._topics_are_there)
            self._check_offsets()
            archive = Archive(spark, self._settings.archive_dir) if self._settings.archive_dir else None
            self._await("Postgres", lambda: claim(self._sink.connected(), archive))
            parser = spark.sparkContext._jvm
            writers = KnownWriters(HttpSchemaRegistry(self._settings.registry_url), lambda text: parses(parser, text))
            known = self._await("the schema registry", lambda: registered_ids(self._settings.registry_url))
            self._await("the schema registry", lambda: writers.learn(known))
            self._await("Postgres", lambda: self._rehearse(spark, writers, archive))
            query = self._start(spark, writers, archive)
            status.state("running")
            self._say_ready(began)
            self._watch(query, status, Watermark())
            status.state("stopped")
        finally:
            _log.info("stopping")
            spark.stop()
            self._sink.close()
            self._status_sink.close()

    # --- the stream -------------------------------------------------------------------------------------------------

    def _start(self, spark: SparkSession, writers: KnownWriters, archive: Archive | None) -> StreamingQuery:
        # What a batch is handed to us as cannot be planned with what we make of it: nothing is made of it before.
        stream = kafka_records(spark, self._settings, self._starting_offsets())

        def into_postgres(batch: DataFrame, batch_id: int) -> None:
            self._await("Postgres", lambda: self._count(batch, batch_id, writers, archive))

        return (
            stream.writeStream.foreachBatch(into_postgres)
            .option("checkpointLocation", self._settings.checkpoint_dir)
            .trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
            .start()
        )

    def _count(self, batch: DataFrame, batch_id: int, writers: KnownWriters, archive: Archive | None) -> None:
        def learn(unknown: list[tuple[str, int]]) -> set[tuple[str, int]]:
            added, refused = self._await("the schema registry", lambda: writers.learn(unknown))
            if added:
                raise NewWriters
            return refused

        try:
            count_batch(
                facts_of(batch, self._known_facts(writers), self._staging, archived=archive is not None),
                batch_id=batch_id,
                staging=self._staging,
                sink=self._sink,
                database_url=self._settings.database_url,
                archive=archive,
                learn=learn,
            )
        except NewWriters:
            _log.info("reading the batch again with new writer schemas")
            self._facts = None
            self._count(batch, batch_id, writers, archive)
            return
        except (Py4JJavaError, PySparkException) as error:
            if "psycopg." in str(error):
                raise Retry(f"Postgres does not take the staged rows: {_psycopg_line(error)}") from error
            raise
        if time.monotonic() - self._forgot > _FORGET_EVERY_S:
            self._forgot = time.monotonic()
            _log.info("forgot %d record ids older than the redelivery window", self._sink.forget())

    def _known_facts(self, writers: KnownWriters) -> Facts:
        """What reads every batch until a writer's schema is learned."""
        if self._facts is None:
            self._facts = Facts(
                writers=writers.known,
                far_future_ms=self._settings.far_future_s * 1000,
                recipients=self._settings.recipient_log,
            )
        return self._facts

    def _watch(self, query: StreamingQuery, status: StatusWriter, watermark: Watermark) -> None:
        """Follow the query until it must stop."""
        while query.isActive:
            if self._stop.wait(_LOOK_EVERY_S):
                self._finish(query)
                return
            try:
                self._tell_progress(query, status, watermark)
            except (Retry, psycopg.OperationalError) as error:
                _log.warning("progress cannot be told: %s", _first_line(error))
        failure = query.exception()
        raise Stop(f"the stream ended: {_first_line(failure) if failure else 'without an error'}") from failure

    def _tell_progress(self, query: StreamingQuery, status: StatusWriter, watermark: Watermark) -> None:
        ends = self._broker.ends(topic_names())
        consumed = _flat(self._status_sink.next_offsets())
        for place, offset in _flat(_spark_offsets(query)).items():
            consumed[place] = max(offset, consumed.get(place, 0))
        lag = watermark.look(ends, consumed)
        lags = {
            place: max(0, end - max(consumed.get(place, 0), ends.first.get(place, 0)))
            for place, end in ends.end.items()
        }
        status.consumed(
            watermark.ms,
            lag,
            _nested(ends.end),
            lags=_nested({place: records for place, records in lags.items() if records}),
            grace_ms=self._settings.grace_s * 1000,
            input_rate=self._rate(sum(consumed.values())),
        )
        self._tell_age(watermark)

    def _tell_age(self, watermark: Watermark) -> None:
        """How old what is counted is: once a minute, a line of the driver's log that CloudWatch takes for a metric."""
        now = time.monotonic()
        if watermark.ms is not None and (self._told_age is None or now - self._told_age >= _TELL_AGE_EVERY_S):
            self._told_age = now
            metrics.add(METRICS_AGE, max(0.0, time.time() - watermark.ms / 1000))
            metrics.write("spark_metrics")

    def _rate(self, consumed: int) -> float:
        """Records a second since the last look."""
        now, before = time.monotonic(), self._looked
        self._looked = now, consumed
        return max(0.0, (consumed - before[1]) / (now - before[0])) if before else 0.0

    def _finish(self, query: StreamingQuery) -> None:
        """Let the running batch end, then stop; a batch cut off would only be done again."""
        deadline = time.monotonic() + _FINISH_BATCH_S
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(StreamingQueryException):
            query.stop()

    # --- before the stream ------------------------------------------------------------------------------------------

    def _tables_are_there(self) -> None:
        rows = self._sink.connected().execute(
            "select name from unnest(%s::text[]) as name where to_regclass(name) is null",
            [[*_TABLES, *(view.table for view in self._sink.views)]],
        )
        missing = [name for (name,) in rows]
        if missing:
            raise Retry(f"tables are missing: {', '.join(missing)}")
        for view in self._sink.views:
            view.check_table(self._sink.connected())

    def _topics_are_there(self) -> None:
        missing = self._broker.missing(topic_names())
        if missing:
            raise Retry(f"topics are missing: {', '.join(missing)}")

    def _check_offsets(self) -> None:
        """Offsets that the topics have never had belong to other topics of the same names: counting on would leave out
        everything below them without a word."""
        ends = self._await("Kafka and its topics", lambda: self._broker.ends(topic_names()))
        for (topic, partition), offset in _flat(self._sink.next_offsets()).items():
            end = ends.end.get((topic, partition), 0)
            if offset > end:
                raise Stop(
                    f"stream_offsets says that {topic}-{partition} is consumed up to {offset}, and it ends at {end}:"
                    " these are not the topics that were counted. Empty the metrics database, or name their brokers."
                )

    def _rehearse(self, spark: SparkSession, writers: KnownWriters, archive: Archive | None) -> None:
        if self._settings.rehearse:
            rehearse(
                spark,
                facts=self._known_facts(writers),
                writers=writers.known,
                staging=self._staging,
                sink=self._sink,
                database_url=self._settings.database_url,
                archive=archive,
            )
            # The first batch may have much to catch up with.
            self._staging.last_records = SMALL

    def _starting_offsets(self) -> str:
        """From where a stream without a checkpoint goes on: the merged offsets, or the beginning."""
        known = self._await("Postgres", self._sink.next_offsets)
        ends = self._await("Kafka and its topics", lambda: self._broker.ends(topic_names()))
        if not known:
            return "earliest"
        starting: dict[str, dict[str, int]] = {}
        for (topic, partition), first in ends.first.items():
            # What retention has deleted cannot be asked for.
            starting.setdefault(topic, {})[str(partition)] = max(first, known.get(topic, {}).get(partition, first))
        return json.dumps(starting)

    def _say_ready(self, began: float) -> None:
        _log.info("counting %s; ready after %.1f s", ", ".join(topic_names()), time.monotonic() - began)
        if self._settings.ready_file:
            Path(self._settings.ready_file).write_text(f"{time.time():.3f}\n")

    def _await[T](self, what: str, attempt: Callable[[], T]) -> T:
        """Call until it succeeds, for at most wait_s. Errors: Retry, when that has passed or the job must stop."""
        deadline = time.monotonic() + self._settings.wait_s
        said = ""
        while True:
            try:
                return attempt()
            except (Retry, StagingLost, psycopg.OperationalError) as error:
                reason = _first_line(error)
                if self._stop.is_set() or time.monotonic() > deadline:
                    raise Retry(f"{what} stayed away for {self._settings.wait_s:.0f} s: {reason}") from error
                if reason != said:
                    _log.warning("waiting for %s: %s", what, reason)
                    said = reason
            self._stop.wait(_PAUSE_S)


def _spark_offsets(query: StreamingQuery) -> dict[str, dict[int, int]]:
    """Where the last finished batch ended: it also passes what is no record (transaction markers)."""
    progress: Any = query.lastProgress
    found: dict[str, dict[int, int]] = {}
    # Through its JSON: in the object itself the offsets are Python's own notation, in a text.
    for source in json.loads(progress.json)["sources"] if progress else []:
        for topic, partitions in (source["endOffset"] or {}).items():
            found[topic] = {int(partition): offset for partition, offset in partitions.items()}
    return found


def _flat(offsets: dict[str, dict[int, int]]) -> dict[tuple[str, int], int]:
    return {(topic, p): offset for topic, partitions in offsets.items() for p, offset in partitions.items()}


def _nested(offsets: Any) -> dict[str, dict[int, int]]:
    nested: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        nested.setdefault(topic, {})[partition] = offset
    return nested


def parses(jvm: Any, schema: str) -> bool:
    """Whether the Avro library that Spark decodes with takes the schema, and it is a record."""
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        return bool(parsed.getType().getName() == "record")
    except Py4JJavaError:
        return False


def _psycopg_line(error: Exception) -> str:
    """What psycopg said, of the stack traces of two languages around it."""
    return next(line for line in str(error).splitlines() if "psycopg." in line).strip()[:300]


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def main() -> int:
    """Run the job; the process's exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        job = Job(settings_from())
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: job.stop())
        job.run()
    except MasscommError as error:
        _log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
