"""The streaming job that makes events of the organisation's own topics: `python -m spark_events.job`.

It reads the topics of the file in SPARK_EVENT_SOURCES (masscomm.kafka.event_sources), new ones without a restart, and
produces each record as an event to the topic `event`, or as a dead letter with the reason. Its progress is committed
to Kafka after each batch, so that a batch whose end was not committed is produced again, with the same event ids.

The settings are environment variables (spark_events.settings). The job waits for missing dependencies, and ends with
status 0 on SIGTERM or Ctrl-C, or with `--available-now` once it has read the topics up to their ends at its start. It
ends with status 1 if a dependency stays down too long or a setting is invalid; the last log line contains the reason.
"""

import json
import logging
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.aws.authentication import kafka_client_config, spark_kafka_options
from masscomm.errors import Retry, Stop
from masscomm.kafka.avro import Codec
from masscomm.kafka.event_sources import GROUP, EventSources, expression, read_event_sources
from masscomm.kafka.offsets import by_topic
from masscomm.kafka.topics import DEAD_LETTER, EVENT, chain_topics
from masscomm.observability import metrics
from masscomm.observability.metric_names import DEAD_LETTERS, RECORDS_IN, RECORDS_OUT
from spark_events.positions import Positions
from spark_events.record_mapping import FUNCTION, Output, RecordMapper
from spark_events.settings import Settings
from spark_metrics.common.broker import Offsets
from spark_metrics.common.command import job_status
from spark_metrics.common.database import first_line
from spark_metrics.common.session import one_task_per_core, reader_options, spark_session, trigger
from spark_metrics.common.settings import settings_of
from spark_metrics.common.waiting import DependencyWaiter, finish
from spark_metrics.counting.status import passed

_log = logging.getLogger("spark_events")

# The columns of Spark's Kafka sink, as the fields of Output.
_OUTPUT = "topic string, key binary, value binary, headers array<struct<key: string, value: binary>>"
_COMMIT_EVERY_S = 0.5
# Kafka deletes the offsets of a group without members after seven days by default, unless they are committed again.
_COMMIT_AGAIN_S = 3600.0
_WRITE_METRICS_EVERY_S = 60.0
# How often in a row the query may fail although no batch was produced.
_MOST_FAILURES = 5


class TopicRecreated(Exception):
    """A topic was deleted and created again: the query must start again, and read it from its beginning."""


class Counters(NamedTuple):
    """The numbers of records that were mapped; those of a repeated task are counted again."""

    events: "Accumulator[int]"
    dead_letters: "Accumulator[int]"

    @classmethod
    def of(cls, spark: SparkSession) -> "Counters":
        return cls(spark.sparkContext.accumulator(0), spark.sparkContext.accumulator(0))

    def take(self) -> dict[str, int]:
        """Return the numbers since the last call."""
        found = {"events": self.events.value, "dead_letters": self.dead_letters.value}
        self.events.value = self.dead_letters.value = 0
        return found


class Job:
    """One run of the job. Raises Stop if the file of the sources is invalid.

    Args:
        available_now: Whether the run ends once it has read the topics up to their ends at its start.
    """

    def __init__(self, settings: Settings, *, available_now: bool = False) -> None:
        self._settings, self._available_now = settings, available_now
        self._sources = read_event_sources(settings.event_sources)
        self._wait = DependencyWaiter(settings.wait_s)
        self._bootstrap = self._sources.bootstrap_servers or settings.bootstrap_servers
        security = kafka_client_config()
        # Each thread has a client: the one of the batches, and the one that commits.
        self._batch_positions = Positions(self._bootstrap, self._sources, GROUP, **security)
        self._positions = Positions(self._bootstrap, self._sources, GROUP, **security)
        self._lock = threading.Lock()
        # The ids of the topics whose records the query has read.
        self._ids: dict[str, str] = {}
        # The error that ended the query: Spark's own error quotes only its text.
        self._failure: Exception | None = None
        self._batches = 0

    def stop(self) -> None:
        """Stop the job after the running batch. A signal handler may call this method."""
        self._wait.stopped.set()

    def run(self) -> None:
        """Run until stop() is called or the run ends.

        Raises:
            Retry: A dependency stayed down.
            Stop: A setting or the installation is invalid, or the query fails again and again.
        """
        spark = spark_session(self._settings, name="masscomm events")
        counters = Counters.of(spark)
        failures = 0
        try:
            while True:
                before = self._batches
                error = self._run_query(spark, counters, self._wait.call("the servers", self._begin))
                if error is None:
                    return
                if isinstance(error, Stop):
                    raise error
                failures = 1 if self._batches > before else failures + 1
                if failures == _MOST_FAILURES:
                    raise Stop(f"the stream ended {failures} times: {first_line(error)}") from error
                _log.warning("starting the query again: %s", first_line(error))
                self._wait.pause()
        finally:
            _log.info("stopping")
            metrics.write(FUNCTION)
            spark.stop()

    def _begin(self) -> Offsets:
        """Return the offsets at which the query begins. Raises Retry or Stop."""
        # Without the registry each task would fail.
        Codec(self._settings.registry()).prefix(EVENT, "EventOccurred")
        self._ids = self._positions.topic_ids()
        return self._positions.start(self._ids)

    def _run_query(self, spark: SparkSession, counters: Counters, begin: Offsets) -> Exception | None:
        """Run the query until the job is stopped, the query has read the topics, or it fails. Return the failure."""
        self._failure = None
        records = (
            spark.readStream.format("kafka")
            .options(**source_options(self._bootstrap, self._sources))
            .option("startingOffsets", json.dumps(by_topic(begin)) if begin else "earliest")
            .option("maxOffsetsPerTrigger", self._settings.max_offsets_per_trigger)
            .load()
        )

        def produce(batch: DataFrame, number: int) -> None:
            self._produce(batch, number, counters)

        with TemporaryDirectory(prefix="masscomm-events-", ignore_cleanup_errors=True) as checkpoint:
            query = (
                one_task_per_core(records)
                .writeStream.foreachBatch(produce)
                # Each query begins at the committed offsets, so the checkpoint is valid for this one only.
                .option("checkpointLocation", Path(checkpoint).as_uri())
                .trigger(**trigger(self._settings, available_now=self._available_now))
                .start()
            )
            _log.info("reading the topics %s, of which there are %d", ", ".join(self._sources.topics), len(self._ids))
            if self._settings.ready_file:
                Path(self._settings.ready_file).touch()
            self._watch(query)
        return None if self._wait.stopped.is_set() else self._failure or query.exception()

    def _produce(self, records: DataFrame, number: int, counters: Counters) -> None:
        """Produce the events and dead letters of a batch. This is the function of foreachBatch."""
        try:
            ids = self._known_ids()
            mapper = RecordMapper(
                sources=self._sources,
                topic_ids=ids,
                registry_url=self._settings.registry_url,
                registry_secret=self._settings.registry_secret,
            )
            options = sink_options(self._settings.bootstrap_servers)
            output(records, mapper, counters).write.format("kafka").options(**options).save()
            # The records of a topic that was created again during the batch may have the ids of the earlier one.
            self._known_ids()
        except Exception as error:
            self._failure = error
            raise
        self._batches += 1
        found = counters.take()
        metrics.add(RECORDS_IN, sum(found.values()))
        metrics.add(RECORDS_OUT, found["events"])
        metrics.add(DEAD_LETTERS, found["dead_letters"])
        _log.info("produced %s", json.dumps({"batch": number, **found}))

    def _known_ids(self) -> dict[str, str]:
        """Return the ids of the topics. Raises TopicRecreated, Retry or Stop."""
        found = self._wait.call("Kafka", self._batch_positions.topic_ids)
        with self._lock:
            recreated = sorted(topic for topic, known in self._ids.items() if found.get(topic, known) != known)
            if recreated:  # guard: own_topics.recreated_topic
                raise TopicRecreated(f"{', '.join(recreated)} was deleted and created again")
            self._ids |= found
            return dict(self._ids)

    def _watch(self, query: StreamingQuery) -> None:
        """Commit the progress of the query, and write metrics, until the job is stopped or the query ends."""
        committed: Offsets = {}
        committed_at = written_at = time.monotonic()
        while True:
            is_last = not query.isActive
            if not is_last and self._wait.stopped.wait(_COMMIT_EVERY_S):
                finish(query)
                is_last = True
            now = time.monotonic()
            progress = query.lastProgress
            ends = passed(json.loads(progress.json) if progress else None)
            if ends != committed or now - committed_at > _COMMIT_AGAIN_S:
                with self._lock:
                    ids = dict(self._ids)
                try:
                    self._positions.commit(ends, ids)
                    committed, committed_at = ends, now
                except Retry as error:
                    # The next call commits these offsets, or later ones.
                    _log.warning("%s", error)
            if now - written_at > _WRITE_METRICS_EVERY_S:
                metrics.write(FUNCTION)
                written_at = now
            if is_last:
                return


def source_options(bootstrap_servers: str, sources: EventSources) -> dict[str, str]:
    """Return the options of Spark's Kafka source."""
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribePattern": expression(sources.topics),
        # A topic may be deleted at any time, which must not stop the others. Positions.start logs unread records.
        "failOnDataLoss": "false",
        **reader_options(GROUP),
    }


def sink_options(bootstrap_servers: str) -> dict[str, str]:
    """Return the options of Spark's Kafka sink."""
    largest = max(topic.max_message_bytes for topic in chain_topics() if topic.name in (EVENT, DEAD_LETTER))
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.max.request.size": str(largest),
        **spark_kafka_options(GROUP),
    }


def output(records: DataFrame, mapper: RecordMapper, counters: Counters) -> DataFrame:
    """Return the columns of Spark's Kafka sink, for records of its Kafka source."""

    def mapped(*record: Any) -> Output:
        found = mapper(*record)
        (counters.dead_letters if found.topic == DEAD_LETTER else counters.events).add(1)
        return found

    columns = ("topic", "partition", "offset", F.unix_millis("timestamp"), "key", "value", "headers")
    return records.select(F.udf(mapped, _OUTPUT)(*columns).alias("output")).select("output.*")


def main() -> int:
    """Run the job, and return the exit status of the process."""
    return job_status(lambda available_now: Job(settings_of(Settings), available_now=available_now))


if __name__ == "__main__":
    sys.exit(main())
