"""Stores the progress of the stream: its lag, its watermark, and the age of the counts."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.kafka.offsets import by_topic
from masscomm.observability import metrics
from masscomm.observability.metric_names import COUNTED, METRICS_AGE, STAGE_LATENCY
from spark_metrics.common.broker import Broker, Ends, Offsets
from spark_metrics.common.database import STREAM
from spark_metrics.common.session import topic_names
from spark_metrics.common.starting import check_topics
from spark_metrics.counting.folding import COUNTS, WEBHOOK_COUNTS, Folder, LaneTable
from spark_metrics.counting.sink import Fenced, PostgresSink
from spark_metrics.sql import read_sql

_AGE_EVERY_S = 60.0


class Watermark:
    """Advances the watermark to the time of an earlier reading of the topics' ends, once all records below these ends
    are consumed.

    An idle partition does not delay the watermark, because it is already consumed up to its end. Records that reach a
    topic later are not included, whatever their timestamps are.
    """

    def __init__(self) -> None:
        self._awaited: tuple[int, Ends] | None = None
        self.ms: int | None = None

    def look(self, at_ms: int, ends: Ends, consumed: Offsets) -> int:
        """Update the watermark from the current end offsets and consumed offsets. Return the number of unconsumed
        records.

        Args:
            at_ms: A time before the ends were read.
            ends: The current ends of the topics.
            consumed: The offsets below which all records are consumed.
        """
        lag = sum(ends.lags(consumed).values())
        if self._awaited is not None and not self._awaited[1].lags(consumed):
            self.ms, self._awaited = self._awaited[0], None
        if lag == 0:
            self.ms, self._awaited = at_ms, None
        elif self._awaited is None:
            self._awaited = at_ms, ends
        return lag


class StatusWriter:
    """Compares the ends of the topics with the merged offsets, and writes the tables stream_status and
    stream_watermark.

    Args:
        sink: A sink for the thread that writes the status.
        epoch: The epoch of this driver, as take_over returned it. After another driver has taken over, nothing is
            written.
        grace_ms: The minimum time between the end of a bucket and its completeness.
        tables: The tables whose complete buckets are folded.
    """

    def __init__(
        self,
        sink: PostgresSink,
        broker: Broker,
        *,
        epoch: int,
        grace_ms: int,
        tables: Sequence[LaneTable] = (*COUNTS, *WEBHOOK_COUNTS),
    ) -> None:
        self._sink, self._broker, self._epoch, self._grace_ms = sink, broker, epoch, grace_ms
        self._folder = Folder(tables, grace=timedelta(milliseconds=grace_ms))
        self._watermark = Watermark()
        self._age_emitted = -_AGE_EVERY_S
        self._counted_before = 0

    def state(self, state: str) -> None:
        """Set the state: waiting, running or stopped."""
        names = {"state": state, "stream": STREAM, "epoch": self._epoch}
        self._sink.connected().execute(read_sql("state"), names)

    def store(self, query: StreamingQuery | None = None) -> None:
        """Store the progress of the stream, before the first query without one.

        Raises:
            Retry, psycopg.OperationalError: A server is down.
            Stop: A topic was deleted and created again, or another driver has taken over the stream (Fenced).
        """
        # The database's clock, by which the API tells complete buckets: that of a driver may be ahead.
        at_ms = self._sink.now_ms()  # guard: metrics.watermark_clock
        ends = self._broker.ends(topic_names())
        progress = query.lastProgress if query is not None else None
        consumed = self._sink.next_offsets()
        # After the ends: those of a new topic never move the watermark.
        found = self._broker.topic_ids(topic_names())
        check_topics(self._sink.topic_ids(), found, consumed)  # guard: metrics.recreated_topic
        for place, offset in passed(json.loads(progress.json) if progress else None).items():
            consumed[place] = max(offset, consumed.get(place, 0))
        self._watermark.look(at_ms, ends, consumed)
        if self._watermark.ms is not None:
            # guard: metrics.folded_before_the_watermark
            self._folder.fold(self._sink.connected(), datetime.fromtimestamp(self._watermark.ms / 1000, UTC))
        rate = progress.inputRowsPerSecond if progress else None
        self.write(self._watermark.ms, ends.lags(consumed), ends.end, input_rate=rate)
        self._emit_age(at_ms, sum(consumed.values()))

    def write(self, watermark_ms: int | None, lags: Offsets, ends: Offsets, *, input_rate: float | None = None) -> None:
        """Write the progress of the stream. Raises Fenced if another driver has taken over the stream.

        Args:
            watermark_ms: The watermark in ms since the epoch; None before the first.
            lags: The numbers of unmerged records of partitions that have any.
            ends: The end offsets of the topics.
            input_rate: The records per second that the last batch has read.
        """
        with self._sink.connected().transaction():
            held = self._sink.connected().execute(
                "update stream_status set lag = %s, end_offsets = %s, lags = %s, input_rate = %s"
                " where stream = %s and epoch = %s",
                [sum(lags.values()), Jsonb(by_topic(ends)), Jsonb(by_topic(lags)), input_rate, STREAM, self._epoch],
            )
            # The updated row stays locked, so no driver can take over before the watermark is written, too.
            if held.rowcount == 0:  # guard: metrics.replaced_driver
                raise Fenced(f"another driver has taken the stream over (ours was epoch {self._epoch})")
            if watermark_ms is not None:
                names = {"stream": STREAM, "ms": watermark_ms, "grace_ms": self._grace_ms}
                self._sink.connected().execute(read_sql("watermark"), names)

    def _emit_age(self, now_ms: int, consumed: int) -> None:
        """Write the age of the counts as a metrics line, once a minute, with the ages at which records were counted."""
        now = time.monotonic()
        if self._watermark.ms is not None and consumed > self._counted_before:
            metrics.add(STAGE_LATENCY[COUNTED], max(0, now_ms - self._watermark.ms))
        self._counted_before = consumed
        if self._watermark.ms is not None and now - self._age_emitted >= _AGE_EVERY_S:
            self._age_emitted = now
            metrics.add(METRICS_AGE, max(0.0, (now_ms - self._watermark.ms) / 1000))
            metrics.write("spark_metrics")


def passed(progress: Mapping[str, Any] | None) -> dict[tuple[str, int], int]:
    """Return the end offsets of the last finished batch, from Spark's progress. They include the offsets of transaction
    markers, which stream_offsets does not.
    """
    return {
        (topic, int(partition)): offset
        for source in (progress["sources"] if progress else ())
        for topic, partitions in (source["endOffset"] or {}).items()
        for partition, offset in partitions.items()
    }
