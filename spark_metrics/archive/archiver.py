"""Appends the topics' records to the archive (spark_metrics.archive.table), independently of counting.

The archiver reads from the offsets that the table has to the ends of the topics, once per trigger, and appends each
range of offsets in one commit. It needs no checkpoint. While the archive fails, the stream counts, the lag of the
archive grows, and the archiver tries again.
"""

import json
import logging
import threading
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from masscomm.aws.authentication import kafka_client_config
from masscomm.errors import Retry, Stop
from masscomm.kafka.offsets import by_topic
from masscomm.observability import metrics
from masscomm.observability.metric_names import METRICS_ARCHIVE_AGE
from spark_metrics.archive.iceberg import Offsets
from spark_metrics.archive.mark import check_table, claim_table
from spark_metrics.archive.table import ArchiveTable, rows_of
from spark_metrics.archive.uncounted import UncountedTable
from spark_metrics.common.broker import Broker
from spark_metrics.common.database import connect
from spark_metrics.common.session import kafka_range, reason_of, spark_errors, topic_names
from spark_metrics.common.settings import Settings
from spark_metrics.common.starting import start_of
from spark_metrics.counting.decode import unknown_writers
from spark_metrics.counting.facts import facts
from spark_metrics.counting.writers import no_writers

_log = logging.getLogger(__name__)

_POOL = "archive"
_LAST_APPENDS_S = 15.0
_AGE_EVERY_S = 60.0


class Archiver:
    """Appends to the archive on a thread of its own.

    Args:
        spark: The session of the job.
        refresh: Reads the categories that operators have changed.
    """

    def __init__(self, settings: Settings, spark: SparkSession, refresh: Callable[[], object]) -> None:
        self._settings, self._spark, self._refresh = settings, spark, refresh
        self.table = ArchiveTable(spark, settings)
        self.uncounted = UncountedTable(spark, settings)
        self._broker = Broker(settings.bootstrap_servers, **kafka_client_config())
        self._writers = no_writers(spark, settings, quiet=True)
        # The end of the archive, as far as this process knows.
        self._known: Offsets | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._caught_up = time.monotonic()
        self._age_emitted = -_AGE_EVERY_S

    def start(self, begin: Offsets) -> None:
        """Create the archive of a database that has counted nothing, and start the thread.

        Args:
            begin: The offsets at which the stream begins.

        Raises:
            Retry: The catalog is down.
            Stop: The archive belongs to another database.
        """
        self.claim(begin)
        self._thread.start()

    def claim(self, begin: Offsets) -> None:
        """Create the archive of a database that has counted nothing. Raises as `start`."""
        with spark_errors(), connect(self._settings.database_url, "spark_metrics archive") as connection:
            claim_table(connection, self.table, begin)
            if self.table.exists():
                self.table.add_columns()  # guard: archive.columns_of_a_version

    def append_all(self, stopped: threading.Event) -> None:
        """Append the records up to the topics' present ends on the calling thread, unless stopped. Raises Retry or
        Stop.
        """
        with spark_errors():
            last = self._broker.ends(topic_names(), committed=True)
            while self.append_some() and not stopped.is_set():
                # guard: archive.ends_at_its_start
                if not last.lags(self._known or {}):
                    break
            self.append_uncounted()

    def stop(self) -> None:
        """Append the records of the topics' ends, if that is soon done, and end the thread."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * _LAST_APPENDS_S)

    def _run(self) -> None:
        # In a pool of its own an append takes turns with the tasks of batches instead of waiting for them.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        failed = ""
        stopping = False
        while not stopping:
            stopping = self._stopped.wait(self._settings.archive_trigger_ms / 1000)
            deadline = time.monotonic() + _LAST_APPENDS_S
            try:
                while self.append_some() and not (stopping and time.monotonic() > deadline):
                    self._emit_age()
                self.append_uncounted()
                failed = ""
                self._caught_up = time.monotonic()
            except Exception as error:  # Counting continues; the age of the archive is watched.
                if failed != (failed := reason_of(error)):
                    _log.error("the archive is behind: %s", failed)
            self._emit_age()

    def append_some(self) -> bool:
        """Append at most max_offsets_per_trigger records, and return whether the topics have further ones.

        Raises:
            Retry: A dependency is down, or another writer has appended.
            Stop: The archive is not this database's, or records were deleted before they were archived.
        """
        began = time.monotonic()
        ends = self._broker.ends(topic_names(), committed=True)
        if self._known == ends.end:
            return False
        with connect(self._settings.database_url, "spark_metrics archive") as connection:
            check_table(connection, self.table)
        before = self.table.appended()
        if before.snapshot is None:
            raise Stop("the archive's table has no offsets: its creation was interrupted")
        self._known = before.offsets
        may_be_lost = not self._settings.fail_on_data_loss
        begin = start_of(before.offsets, ends, may_be_lost=may_be_lost, known_by="the archive")
        until = share(begin, ends.end, self._settings.max_offsets_per_trigger)
        records = sum(until[place] - begin[place] for place in until)
        if not records:
            return False
        new = self._read(begin, until)
        # Reading the records twice costs less than keeping them, and keeping needs memory.
        if self._learn(unknown_writers(new, self._writers.known)):
            return True
        # After the ends were read: no record is later than these categories.
        self._refresh()
        found = facts(
            new,
            writers=self._writers.known,
            recipients=self._settings.recipient_log,
        )
        self.table.append(rows_of(found), before, until)
        self._known = until
        lag = sum(ends.end[place] - until[place] for place in until)
        done = {"offsets": records, "lag": lag, "ms": round((time.monotonic() - began) * 1000)}
        _log.info("archived %s", json.dumps(done))
        return lag > 0

    def append_uncounted(self) -> None:
        """Append the positions that the stream has merged without counting their records.

        Raises:
            Retry: The database is down, or another writer has appended.
        """
        with connect(self._settings.database_url, "spark_metrics archive") as connection:
            self.uncounted.continue_from(connection)

    def _read(self, begin: Offsets, until: Offsets) -> DataFrame:
        return kafka_range(self._spark, self._settings, json.dumps(by_topic(begin)), json.dumps(by_topic(until)))

    def _learn(self, unknown: DataFrame) -> bool:
        """Look up unknown writers' schemas. Return whether the records can be decoded with more of them."""
        wanted = [(row["source"], row["schema_id"]) for row in unknown.collect()]
        while (learned := self._writers.learn(wanted)).asked_again and not learned.added:
            if self._stopped.wait(0.5):
                raise Retry("the job stops before it has called the registry again")
        return learned.added > 0

    def _emit_age(self) -> None:
        """Write the age of the archive as a metrics line, once a minute."""
        now = time.monotonic()
        if now - self._age_emitted >= _AGE_EVERY_S:
            self._age_emitted = now
            metrics.add(METRICS_ARCHIVE_AGE, now - self._caught_up)
            metrics.write("spark_metrics")


def share(begin: Offsets, ends: Offsets, most: int) -> dict[tuple[str, int], int]:
    """Return the end of the next range of each partition: at most about `most` records, in proportion to the lags."""
    lags = {place: max(0, end - begin[place]) for place, end in ends.items()}
    part = min(1.0, most / max(1, sum(lags.values())))
    return {place: begin[place] + min(lag, max(1, int(lag * part))) for place, lag in lags.items()}
