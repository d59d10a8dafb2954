"""The streaming job: `python -m spark_metrics.job`. It consumes the topics and writes the counts to Postgres.

The settings are environment variables (spark_metrics.settings). The job waits for missing dependencies, continues at
the offsets stored in Postgres, and ends with status 0 on SIGTERM or Ctrl-C. It ends with status 1 if a dependency stays
down too long or a setting is invalid; the last log line contains the reason.
"""

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.aws.authentication import kafka_client_config, spark_kafka_options
from masscomm.domain.grains import Grain
from masscomm.errors import MasscommError, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.offsets import by_topic
from masscomm.observability import metrics
from masscomm.observability.metric_names import METRICS_AGE
from masscomm.untrusted import mask_root_logger
from spark_metrics.archive import Archive
from spark_metrics.archive_mark import claim
from spark_metrics.batches import Staged, merge_batch, stage_batch
from spark_metrics.broker import Broker
from spark_metrics.pipeline import Pipeline
from spark_metrics.refusals import (
    Place,
    RefusedByPostgres,
    first_of,
    is_permanent,
    places_of,
    refused_places,
    without_places,
)
from spark_metrics.rehearsal import rehearse
from spark_metrics.settings import EMR, Settings, settings_from
from spark_metrics.sink import Merged, PostgresSink, StagingLost, StatusWriter
from spark_metrics.sources import SOURCES
from spark_metrics.staging import Staging
from spark_metrics.starting import Start, check_topics, start_of
from spark_metrics.transforms import Facts
from spark_metrics.views import load_views
from spark_metrics.watermark import Ends, Watermark
from spark_metrics.writers import KnownWriters, registered_ids

_log = logging.getLogger("spark_metrics")

_TABLES = (
    *(grain.table for grain in Grain),
    *("sends", "send_totals", "send_states", "stream_status"),
    *("archive_batches", "stream_views", "recipient_log", "staging_attempts", "stream_topics"),
)
_LOOK_EVERY_S = 0.5
_PAUSE_S = 0.5
_FINISH_BATCH_S = 15.0
_FETCH_WAIT_MS = 10
_POLL_RECORDS = 5_000
_FORGET_EVERY_S = 600.0
_TELL_AGE_EVERY_S = 60.0

# Limit the lengths in Avro values: a corrupt record of a few bytes could otherwise request gigabytes and end the
# process. Records have at most 1 MiB, and an item has at least one byte. The fast reader needs a third less time.
AVRO_OPTIONS = (
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1100000"
    " -Dorg.apache.avro.limits.bytes.maxLength=2200000"
    " -Dorg.apache.avro.limits.string.maxLength=2200000"
    " -Dorg.apache.avro.fastread=true"
)

# PySpark resolves these class names in the JVM at each use, hundreds of times per batch, and searches every jar for
# names without a package.
_CLASSES = (
    "org.apache.spark.api.python.PythonRDD",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SimplePythonFunction",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.execution.SQLExecutionRDD",
    "org.apache.spark.sql.functions",
    "org.apache.spark.storage.StorageLevel",
)


class NewWriters(Exception):
    """New writers' schemas were learned: the batch must be decoded again."""


def topic_names() -> list[str]:
    """Return the names of all topics that the job consumes."""
    return [topic for source in SOURCES for topic in source.topics()]


def spark_session(settings: Settings) -> SparkSession:
    """Return a small Spark session: no UI, loopback only, two shuffle partitions. On EMR, the job's submission defines
    its resources.
    """
    options = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        # Aggregation collects ids and positions into lists, with few groups per partition. The fallback to sorting
        # would be slower.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        "spark.sql.adaptive.enabled": "false",
        # If a record has a header twice, the last one counts.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # An out-of-range value becomes null, and its record is quarantined. With ANSI mode, an exception would stop the
        # stream at this record.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.minBatchesToRetain": "10",
        # Limit the data that Spark keeps about finished jobs for the UI: half a megabyte per batch.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.dagGraph.retainedRootRDDs": "10",
        # Shorten the text of each plan, which only the disabled UI uses.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.debug.maxToStringFields": "5",
        # Disable the stack trace of each expression, which only error messages use. In Python, it takes a dozen calls
        # into the JVM per expression.
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # The checkpoint is on a local disk and is not used after the run. The default manager would start a `readlink`
        # process twice per renamed file: sixteen processes per batch.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
        ),
    }
    builder = SparkSession.builder.appName("masscomm metrics")
    if settings.master != EMR:
        builder = builder.master(settings.master)
        options |= _on_one_machine(settings)
    if settings.master.startswith("local"):
        # Executors are child processes of this process, and "python3" may be another interpreter.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _know_classes(spark.sparkContext._jvm)
    return spark


def _know_classes(jvm: Any) -> None:
    """Store JVM classes as attributes of the Python object, where PySpark looks first."""
    for name in _CLASSES:
        found = getattr(jvm, name)
        setattr(jvm, name, found)
        setattr(jvm, name.rpartition(".")[2], found)


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
        # Shuffled data is mainly ids, which cannot be compressed, and stays on this machine.
        "spark.shuffle.compress": "false",
        **({"spark.jars": settings.jars} if settings.jars else {}),
    }


def kafka_options(settings: Settings) -> dict[str, str]:
    """Return the options of Spark's Kafka source: all topics that the job consumes, committed records only."""
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "subscribe": ",".join(topic_names()),
        # Spark would read the records of aborted transactions by default; masscomm's functions ignore them.
        "kafka.isolation.level": "read_committed",  # guard: metrics.read_committed
        **spark_kafka_options(topics.SPARK_GROUP),
    }


def kafka_records(spark: SparkSession, settings: Settings, starting: str) -> DataFrame:
    """Return the stream of all topics' records.

    Args:
        starting: The first offsets if there is no checkpoint, as Spark's startingOffsets.
    """
    return (
        spark.readStream.format("kafka")
        .options(**kafka_options(settings))
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .option("failOnDataLoss", settings.fail_on_data_loss)
        .option("includeHeaders", True)
        # Spark requests the end offset after each fetch, and the broker responds in order per connection. At the end of
        # a partition, the default wait of 500 ms would therefore delay each batch.
        .option("kafka.fetch.max.wait.ms", _FETCH_WAIT_MS)
        # Spark polls again after the records of the last poll, so one poll may return as many records as one fetch.
        .option("kafka.max.poll.records", _POLL_RECORDS)
        .load()
        # Spark copies each selected column, so only the needed ones are selected.
        .select("topic", "partition", "offset", "timestamp", "value", "headers")
    )


class Job:
    """One run of the job, from waiting for its dependencies to its end."""

    def __init__(self, settings: Settings) -> None:
        self._told_age: float | None = None
        self._settings = settings
        self._stop = threading.Event()
        self._broker = Broker(settings.bootstrap_servers, **kafka_client_config())
        self._sink = PostgresSink(
            settings.database_url,
            window_s=settings.redelivery_window_s,
            views=load_views(settings.views),
            recipients=settings.recipient_log,
        )
        # Staging, merging and status run on three threads, each with its own connection.
        self._staging_sink = self._sink
        self._status_sink = PostgresSink(settings.database_url)
        self._staging = Staging()
        self._facts: Facts | None = None
        self._forgot = time.monotonic()
        # Spark's number of a batch that Postgres rejected → the positions to leave out of it; None until these are
        # found.
        self._unstorable: dict[int, list[Place] | None] = {}
        self._looked: tuple[float, int] | None = None

    def stop(self) -> None:
        """Stop the job after the running batches. A signal handler may call this method."""
        self._stop.set()

    def run(self) -> None:
        """Run until stop() is called.

        Raises:
            Retry: A dependency stayed down.
            Stop: A setting or the installation is invalid.
        """
        began = time.monotonic()
        # Spark needs the longest to start and needs no server, so it starts first.
        spark = spark_session(self._settings)
        try:
            for view in self._sink.views:
                view.check_transform(spark)
            self._await("Postgres and its tables", self._tables_are_there)
            epoch = self._await("Postgres and its tables", self._sink.take_over)
            self._staging_sink = self._sink.beside()
            status = StatusWriter(self._status_sink, epoch)
            self._await("Kafka and its topics", self._topics_are_there)
            # From now on only this driver can merge, so the stored offsets cannot change before its first merge.
            begin = self._where_it_begins()
            archive = Archive(spark, self._settings.archive_dir) if self._settings.archive_dir else None
            self._await("Postgres", lambda: claim(self._sink.connected(), archive))
            parser = spark.sparkContext._jvm
            writers = KnownWriters(
                HttpSchemaRegistry(self._settings.registry_url),
                lambda text: parses(parser, text),
                DeniedIds(retry_s=self._settings.denied_schema_retry_s),
            )
            known = self._await("the schema registry", lambda: registered_ids(self._settings.registry_url))
            self._await("the schema registry", lambda: writers.learn(known))
            self._await("Postgres", lambda: self._rehearse(spark, writers, archive))
            with TemporaryDirectory(prefix="masscomm-metrics-", ignore_cleanup_errors=True) as checkpoint:
                # The number of records that wait now is the size of the first batch.
                self._staging.last_records = begin.records_up_to(self._ends())
                # Exclude the existing objects from the garbage collection after each batch.
                gc.collect()
                gc.freeze()
                pipeline = self._pipeline(writers, archive)
                query = self._start(spark, pipeline, begin, Path(checkpoint))
                status.state("running")
                self._say_ready(began)
                self._watch(query, pipeline, status, Watermark())
            status.state("stopped")
        finally:
            _log.info("stopping")
            spark.stop()
            for sink in (self._sink, self._staging_sink, self._status_sink):
                sink.close()

    # --- the stream -------------------------------------------------------------------------------------------------

    def _start(self, spark: SparkSession, pipeline: Pipeline, begin: Start, checkpoint: Path) -> StreamingQuery:
        # Each batch is transformed in foreachBatch: the plan of the streaming frame would be made for each batch again.
        stream = kafka_records(spark, self._settings, begin.for_spark())
        return (
            stream.writeStream.foreachBatch(pipeline.put)
            # The checkpoint is valid for this run only: for Spark, a batch is finished once it is staged, although it
            # is not merged. It is on the driver's own disk.
            .option("checkpointLocation", checkpoint.as_uri())
            .trigger(processingTime=f"{self._settings.trigger_ms} milliseconds")
            .start()
        )

    def _pipeline(self, writers: KnownWriters, archive: Archive | None) -> Pipeline:
        def stage(records: DataFrame, number: int, beside: Collection[int]) -> Staged:
            return self._stage(records, number, beside, writers, archive)

        return Pipeline(stage, self._merge, lambda attempt: self._await("Postgres", attempt))

    def _stage(
        self,
        records: DataFrame,
        number: int,
        beside: Collection[int],
        writers: KnownWriters,
        archive: Archive | None,
    ) -> Staged:
        def learn(unknown: list[tuple[str, int]]) -> set[tuple[str, int]]:
            # _await handles an unavailable registry. This loop retries schema ids that the registry denies.
            while (learned := self._await("the schema registry", lambda: writers.learn(unknown))).asked_again:
                if learned.added or self._stop.wait(_PAUSE_S):
                    break
            if learned.added:
                raise NewWriters
            if learned.asked_again:
                raise Retry("the job stops before it has called the registry again")
            return learned.refused

        def staged(some: DataFrame, archive: Archive | None, **more: Any) -> Staged:
            with _postgres_errors():
                return stage_batch(
                    some,
                    self._known_facts(writers),
                    batch_id=number,
                    staging=self._staging,
                    sink=self._staging_sink,
                    database_url=self._settings.database_url,
                    archive=archive,
                    learn=learn,
                    beside=beside,
                    **more,
                )

        def fits(some: DataFrame) -> bool:
            try:
                trial = staged(some, None, rehearsal=True)
                with _postgres_errors():
                    merge_batch(trial, sink=self._staging_sink, rehearsal=True)
            except RefusedByPostgres:
                return False
            return True

        while True:
            try:
                if number in self._unstorable and self._unstorable[number] is None:
                    self._unstorable[number] = _refused(records, fits)
                left_out = self._unstorable.get(number) or []
                return staged(without_places(records, left_out), archive, unstorable=left_out)
            except NewWriters:
                _log.info("reading the batch again with new writer schemas")
                self._facts = None
            except RefusedByPostgres as error:
                self._find_unstorable(number, error)

    def _merge(self, staged: Staged) -> Merged:
        try:
            with _postgres_errors():
                if time.monotonic() - self._forgot > _FORGET_EVERY_S:
                    self._forgot = time.monotonic()
                    forgotten = self._sink.forget(staged.attempt)
                    _log.info("forgot %d record ids older than the redelivery window", forgotten)
                merged = merge_batch(staged, sink=self._sink)
        except RefusedByPostgres as error:
            self._find_unstorable(staged.batch_id, error)
            raise Retry(f"the batch is staged again without the records that Postgres rejects: {error}") from error
        self._unstorable.pop(staged.batch_id, None)
        return merged

    def _find_unstorable(self, number: int, error: RefusedByPostgres) -> None:
        """Make the next staging of the batch search for the records that Postgres rejects.

        Raises RefusedByPostgres if the last staging already searched for them.
        """
        if number in self._unstorable and self._unstorable[number] is None:
            raise error
        self._unstorable[number] = None

    def _known_facts(self, writers: KnownWriters) -> Facts:
        """Return the transform that decodes each batch. It is created again after a writer's schema was learned."""
        if self._facts is None:
            self._facts = Facts(
                writers=writers.known,
                far_future_ms=self._settings.far_future_s * 1000,
                recipients=self._settings.recipient_log,
            )
        return self._facts

    def _watch(self, query: StreamingQuery, pipeline: Pipeline, status: StatusWriter, watermark: Watermark) -> None:
        """Store the progress of the query until the job is stopped or the query ends."""
        try:
            while query.isActive:
                pipeline.check()
                if self._stop.wait(_LOOK_EVERY_S):
                    self._finish(query, pipeline)
                    return
                try:
                    self._tell_progress(query, pipeline, status, watermark)
                except (Retry, psycopg.OperationalError) as error:
                    _log.warning("progress cannot be stored: %s", _first_line(error))
            pipeline.check()
        except MasscommError:
            raise
        except Exception as error:
            raise Stop(f"the stream ended: {_first_line(error)}") from error
        failure = query.exception()
        raise Stop(f"the stream ended: {_first_line(failure) if failure else 'without an error'}") from failure

    def _tell_progress(
        self, query: StreamingQuery, pipeline: Pipeline, status: StatusWriter, watermark: Watermark
    ) -> None:
        ends = self._broker.ends(topic_names())
        # Read the progress before the merged offsets: the batch it describes is then included in them.
        progress = query.lastProgress
        merged_up_to = pipeline.merged_up_to
        consumed = _flat(self._status_sink.next_offsets())
        for place, offset in _flat(passed(json.loads(progress.json) if progress else None, merged_up_to)).items():
            consumed[place] = max(offset, consumed.get(place, 0))
        lag = watermark.look(ends, consumed)
        lags = {
            place: max(0, end - max(consumed.get(place, 0), ends.first.get(place, 0)))
            for place, end in ends.end.items()
        }
        status.consumed(
            watermark.ms,
            lag,
            by_topic(ends.end),
            lags=by_topic({place: records for place, records in lags.items() if records}),
            grace_ms=self._settings.grace_s * 1000,
            input_rate=self._rate(sum(consumed.values())),
        )
        self._tell_age(watermark)

    def _tell_age(self, watermark: Watermark) -> None:
        """Write the age of the counts as a metrics line, once a minute."""
        now = time.monotonic()
        if watermark.ms is not None and (self._told_age is None or now - self._told_age >= _TELL_AGE_EVERY_S):
            self._told_age = now
            metrics.add(METRICS_AGE, max(0.0, time.time() - watermark.ms / 1000))
            metrics.write("spark_metrics")

    def _rate(self, consumed: int) -> float:
        """Return the consumed records per second since the last call."""
        now, before = time.monotonic(), self._looked
        self._looked = now, consumed
        return max(0.0, (consumed - before[1]) / (now - before[0])) if before else 0.0

    def _finish(self, query: StreamingQuery, pipeline: Pipeline) -> None:
        """Let the running batches end, then stop the query: the next start would repeat an interrupted batch."""
        deadline = time.monotonic() + _FINISH_BATCH_S
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(StreamingQueryException):
            query.stop()
        try:
            pipeline.drain(max(0.0, deadline - time.monotonic()))
        except Retry as error:
            _log.warning("the next start repeats the last batch: %s", error)

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

    def _where_it_begins(self) -> Start:
        known = _flat(self._await("Postgres", self._staging_sink.next_offsets))
        counted = self._await("Postgres", self._staging_sink.topic_ids)
        found = self._await("Kafka and its topics", lambda: self._broker.topic_ids(topic_names()))
        check_topics(counted, found, known)
        begin = start_of(known, self._ends(), may_be_lost=not self._settings.fail_on_data_loss)
        self._await("Postgres", lambda: self._staging_sink.know_topics(found))
        return begin

    def _ends(self) -> Ends:
        return self._await("Kafka and its topics", lambda: self._broker.ends(topic_names()))

    def _say_ready(self, began: float) -> None:
        _log.info("counting %s; ready after %.1f s", ", ".join(topic_names()), time.monotonic() - began)
        if self._settings.ready_file:
            Path(self._settings.ready_file).write_text(f"{time.time():.3f}\n")

    def _await[T](self, what: str, attempt: Callable[[], T]) -> T:
        """Repeat a call until it succeeds, for at most wait_s. Raises Retry after that time, or when the job stops."""
        deadline = time.monotonic() + self._settings.wait_s
        said = ""
        while True:
            try:
                return attempt()
            except (Retry, StagingLost, psycopg.OperationalError) as error:
                reason = _first_line(error)
                if self._stop.is_set() or time.monotonic() > deadline:
                    raise Retry(f"{what} stayed down for {self._settings.wait_s:.0f} s: {reason}") from error
                if reason != said:
                    _log.warning("waiting for %s: %s", what, reason)
                    said = reason
            self._stop.wait(_PAUSE_S)


def passed(progress: Mapping[str, Any] | None, merged_up_to: int) -> dict[str, dict[int, int]]:
    """Return the end offsets of the last merged batch, from Spark's progress. They include the offsets of transaction
    markers, which stream_offsets does not.

    Args:
        merged_up_to: The number of the last merged batch; Spark may already have begun the next one.
    """
    found: dict[str, dict[int, int]] = {}
    # If Spark is two batches ahead, its progress begins at the end of an unmerged batch.
    if progress is None or progress["batchId"] > merged_up_to + 1:
        return found
    side = "endOffset" if progress["batchId"] <= merged_up_to else "startOffset"  # guard: metrics.watermark
    for source in progress["sources"]:
        for topic, partitions in (source[side] or {}).items():
            found[topic] = {int(partition): offset for partition, offset in partitions.items()}
    return found


def _refused(records: DataFrame, fits: Callable[[DataFrame], bool]) -> list[Place]:
    """Return the positions of the records in a batch that Postgres rejects.

    Args:
        fits: Returns whether Postgres accepts some of the records.
    """
    places = places_of(records)
    found = refused_places(places, lambda n, without: fits(first_of(records, places[:n], without)))
    _log.warning("Postgres rejects %d records of %d: %s", len(found), len(places), found[:10])
    return found


def _flat(offsets: dict[str, dict[int, int]]) -> dict[tuple[str, int], int]:
    return {(topic, p): offset for topic, partitions in offsets.items() for p, offset in partitions.items()}


def parses(jvm: Any, schema: str) -> bool:
    """Return whether Spark's Avro library can parse the schema, and the schema is a record."""
    try:
        parsed = jvm.org.apache.avro.Schema.Parser().parse(schema)
        # Decoding adds a field to the schema's JSON, so Python must be able to parse it as well.
        return bool(parsed.getType().getName() == "record") and isinstance(json.loads(schema).get("fields"), list)
    except Py4JJavaError:
        return False


@contextmanager
def _postgres_errors() -> Iterator[None]:
    """Convert Postgres' errors, also those of executors: to RefusedByPostgres if permanent, else to Retry."""
    try:
        yield
    except (psycopg.Error, Py4JJavaError, PySparkException) as error:
        if is_permanent(error):  # guard: metrics.permanent_postgres_error
            raise RefusedByPostgres(_psycopg_line(error)) from error
        if isinstance(error, psycopg.Error):
            raise
        if "psycopg." in str(error):
            raise Retry(f"Postgres cannot store the staged rows: {_psycopg_line(error)}") from error
        raise


def _psycopg_line(error: Exception) -> str:
    """Return the line with psycopg's error, without the stack traces of Java and Python."""
    if isinstance(error, psycopg.Error):
        return _first_line(error)
    return next(line for line in str(error).splitlines() if "psycopg." in line).strip()[:300]


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def main() -> int:
    """Run the job, and return the exit status of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
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
