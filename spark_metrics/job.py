"""The streaming job: `python -m spark_metrics.job`. It consumes the topics and writes the counts to Postgres.

The settings are environment variables (spark_metrics.common.settings). The job waits for missing dependencies,
continues at the offsets stored in Postgres, and ends with status 0 on SIGTERM or Ctrl-C. With `--available-now` it ends
with status 0 once it has counted and archived the records that the topics had at its start. It ends with status 1 if a
dependency stays down too long or a setting is invalid; the last log line contains the reason.
"""

import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.aws.authentication import kafka_client_config
from masscomm.clock import SystemClock
from masscomm.domain.categories import category_table
from masscomm.domain.grains import LATENCY_GRAINS, REASONS_TABLE, Grain
from masscomm.errors import MasscommError, Retry, Stop
from masscomm.kafka.offsets import by_topic
from masscomm.kafka.producer import KafkaProducer
from masscomm.kafka.source_records import KafkaSourceRecords
from masscomm.observability import metrics
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.categories.known import KnownCategories
from spark_metrics.archive.archiver import Archiver
from spark_metrics.archive.mark import check_archive_dir
from spark_metrics.common.broker import Broker, Offsets
from spark_metrics.common.command import job_status
from spark_metrics.common.database import first_line
from spark_metrics.common.session import kafka_records, spark_session, topic_names, trigger
from spark_metrics.common.settings import Settings, settings_from
from spark_metrics.common.starting import check_topics, start_of
from spark_metrics.common.waiting import DependencyWaiter, finish
from spark_metrics.counting import webhook_results
from spark_metrics.counting.batches import BatchCounter, NewPlan
from spark_metrics.counting.facts import facts
from spark_metrics.counting.folding import COUNTS, WEBHOOK_COUNTS
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.late_schemas import LateSchemas
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.status import StatusWriter
from spark_metrics.counting.views import load_views
from spark_metrics.counting.writers import KnownWriters, no_writers, registered_ids

_log = logging.getLogger("spark_metrics")

_TABLES = (
    *(table for grain in Grain for table in (grain.table, grain.webhook_table)),
    *(grain.latency_table for grain in LATENCY_GRAINS),
    REASONS_TABLE,
    *("sends", "send_changes", "send_totals", "send_states", "stream_status"),
    *("stream_views", "recipient_log", "lane_offsets", "counted_id_tables", "stream_topics", webhook_results.LOG),
)
_PROGRESS_EVERY_S = 1.0


class Job:
    """One run of the job, from waiting for its dependencies to its end.

    Args:
        available_now: Whether the run ends once it has read the topics up to their ends at its start.
    """

    def __init__(self, settings: Settings, *, available_now: bool = False) -> None:
        self._settings, self._available_now = settings, available_now
        self._wait = DependencyWaiter(settings.wait_s)
        self._refresh = _categories(settings.categories_table)
        self._broker = Broker(settings.bootstrap_servers, **kafka_client_config())
        self._sink = PostgresSink(
            settings.database_url,
            window_s=settings.redelivery_window_s,
            views=load_views(settings.views),
            recipients=settings.recipient_log,
            webhook_successes=settings.webhook_successes,
        )
        # Batches are counted and the progress is stored on two threads, each with its own connection.
        self._status_sink = PostgresSink(settings.database_url)

    def stop(self) -> None:
        """Stop the job after the running batch. A signal handler may call this method."""
        self._wait.stopped.set()

    def run(self) -> None:
        """Run until stop() is called or the run ends.

        Raises:
            Retry: A dependency stayed down.
            Stop: A setting or the installation is invalid.
        """
        began = time.monotonic()
        # Spark needs the longest to start and needs no server, so it starts first.
        spark = spark_session(self._settings)
        archiver = Archiver(self._settings, spark, self._refresh) if self._settings.archive_dir else None
        try:
            writers = no_writers(spark, self._settings)
            begin = self._wait.call("the servers", lambda: self._prepare(writers, archiver))
            lanes = Lanes(spark, self._settings.lanes, recipients=self._sink.recipients)
            # Exclude the existing objects from the later garbage collections.
            gc.collect()
            gc.freeze()
            _log.info("counting %s; ready after %.1f s", ", ".join(topic_names()), time.monotonic() - began)
            late = self._late_schemas(spark)
            while self._learns_when_counting(spark, lanes, writers, begin, late):
                _log.info("starting the query again with new writer schemas or categories")
                begin = self._wait.call("the servers", self._start_offsets)
            if archiver is not None and self._available_now and not self._wait.stopped.is_set():
                self._wait.call("the archive", lambda: archiver.append_all(self._wait.stopped))
        finally:
            _log.info("stopping")
            if archiver is not None:
                archiver.stop()
            metrics.write("spark_metrics")
            spark.stop()
            for sink in (self._sink, self._status_sink):
                sink.close()

    def _late_schemas(self, spark: SparkSession) -> LateSchemas:
        servers, security = self._settings.bootstrap_servers, kafka_client_config()
        return LateSchemas(
            self._status_sink,
            no_writers(spark, self._settings, quiet=True),
            KafkaSourceRecords(servers, log_level=0, **security),
            cache(lambda: KafkaProducer(servers, log_level=0, **security)),
        )

    def _learns_when_counting(
        self, spark: SparkSession, lanes: Lanes, writers: KnownWriters, begin: Offsets, late: LateSchemas
    ) -> bool:
        """Run the query until the job is stopped, the query has read the topics, or new writers' schemas are learned.
        Return whether they are.

        The records are decoded by the query's own plan, so that Spark analyses it once and not for each batch.
        """
        categories = category_table()
        records = kafka_records(spark, self._settings, json.dumps(by_topic(begin)))
        counted = facts(
            records,
            writers=writers.known,
            recipients=self._settings.recipient_log,
        )
        counter = BatchCounter(self._sink, lanes, writers, self._wait, categories=categories, refresh=self._refresh)
        grace_ms = self._settings.grace_s * 1000
        status = StatusWriter(
            self._status_sink,
            self._broker,
            epoch=self._sink.epoch,
            grace_ms=grace_ms,
            tables=[*COUNTS, *WEBHOOK_COUNTS, *(view.sums_of_lanes for view in self._sink.views)],
        )
        if self._available_now:
            # The watermark advances to this time when the query has read the topics up to the present ends.
            self._wait.call("the servers", status.store)  # guard: metrics.available_now_watermark
        with TemporaryDirectory(prefix="masscomm-metrics-", ignore_cleanup_errors=True) as checkpoint:
            query = (
                lanes.rows(counted)
                .writeStream.foreachBatch(counter.count)
                # Every query begins at the offsets that are stored with the counts, so the checkpoint is valid for this
                # one only.
                .option("checkpointLocation", Path(checkpoint).as_uri())
                .trigger(**trigger(self._settings, available_now=self._available_now))
                .start()
            )
            status.state("running")
            if self._settings.ready_file:
                Path(self._settings.ready_file).touch()
            self._watch(query, status, late)
        failure = counter.failure or query.exception()
        if self._available_now and failure is None and not self._wait.stopped.is_set():
            self._wait.call("the servers", lambda: status.store(query))
            self._wait.call("the servers", late.produce_all)
            status.state("stopped")
            return False
        if self._wait.stopped.is_set():
            status.state("stopped")
            return False
        if isinstance(failure, NewPlan):
            return True
        if isinstance(failure, MasscommError):
            raise failure
        raise Stop(f"the stream ended: {first_line(failure) if failure else 'without an error'}") from failure

    def _watch(self, query: StreamingQuery, status: StatusWriter, late: LateSchemas) -> None:
        """Store the progress of the query, and look up late schemas, until the job is stopped or the query ends."""
        while query.isActive:
            if self._wait.stopped.wait(_PROGRESS_EVERY_S):
                finish(query)
                return
            try:
                status.store(query)
                late.produce_next()  # guard: metrics.late_schema
            except (Retry, psycopg.OperationalError) as error:
                _log.warning("progress cannot be stored: %s", first_line(error))
            except psycopg.Error as error:
                raise Stop(f"progress cannot be stored: {first_line(error)}") from error

    # --- before the stream ---

    def _prepare(self, writers: KnownWriters, archiver: Archiver | None) -> Offsets:
        """Check the servers, become the stream's driver, and return the offsets at which the stream begins.

        Raises Retry or psycopg.OperationalError while a server is not ready; then this method can be called again.
        """
        connection = self._sink.connected()
        tables = "select name from unnest(%s::text[]) as name where to_regclass(name) is null"
        if missing := [name for (name,) in connection.execute(tables, [list(_TABLES)])]:
            raise Retry(f"tables are missing: {', '.join(missing)}")
        for view in self._sink.views:
            view.prepare_table(connection)
        if missing := self._broker.missing(topic_names()):
            raise Retry(f"topics are missing: {', '.join(missing)}")
        writers.learn(registered_ids(self._settings.registry()))
        self._refresh()
        self._sink.take_over()
        # From now on only this driver can merge, so the stored offsets cannot change before its first merge.
        begin = self._start_offsets()
        check_archive_dir(connection, self._settings.archive_dir)
        if archiver is not None:
            if self._available_now:
                archiver.claim(begin)  # The run appends after it has counted.
            else:
                archiver.start(begin)
        return begin

    def _start_offsets(self) -> Offsets:
        known = self._sink.next_offsets()
        found = self._broker.topic_ids(topic_names())
        check_topics(self._sink.topic_ids(), found, known)
        begin = start_of(known, self._broker.ends(topic_names()), may_be_lost=not self._settings.fail_on_data_loss)
        self._sink.store_topic_ids(found)
        return begin


def _categories(table: str) -> Callable[[], object]:
    """Return the reader of the categories that operators have changed, in a table. It raises Retry."""
    if table == "none":
        return lambda: None
    known = KnownCategories(store=DynamoDbCategories(table=table), clock=SystemClock())

    def refresh() -> None:
        try:
            known.refresh()
        except Stop as error:
            # The job waits for a table that is being made, as it does for those of Postgres.
            raise Retry(str(error)) from error

    return refresh


def main() -> int:
    """Run the job, and return the exit status of the process."""

    return job_status(lambda available_now: Job(settings_from(), available_now=available_now))


if __name__ == "__main__":
    sys.exit(main())
