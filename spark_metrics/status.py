"""Stores the progress of the stream: its lag, its watermark, and the age of the counts."""

import json
import time
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.kafka.offsets import by_topic
from masscomm.observability import metrics
from masscomm.observability.metric_names import COUNTED, METRICS_AGE, STAGE_LATENCY
from spark_metrics.broker import Broker
from spark_metrics.database import STREAM
from spark_metrics.session import topic_names
from spark_metrics.sink import PostgresSink
from spark_metrics.sql import read_sql
from spark_metrics.watermark import Watermark

_AGE_EVERY_S = 60.0

# {topic: {partition: offset or number of records}}
type Offsets = dict[str, dict[int, int]]


class StatusWriter:
    """Writes the stream's progress to the tables stream_status and stream_watermark.

    Args:
        sink: A sink for the thread that writes the status.
        epoch: The epoch of this driver, as take_over returned it.
    """

    def __init__(self, sink: PostgresSink, epoch: int) -> None:
        self._sink = sink
        self._epoch = epoch

    def state(self, state: str) -> None:
        """Set the state: waiting, running or stopped. The call has no effect if another driver has taken over."""
        self._sink.connected().execute(
            read_sql("state"),
            {"state": state, "stream": STREAM, "epoch": self._epoch},
        )

    def consumed(
        self,
        watermark_ms: int | None,
        lag: int,
        end_offsets: Offsets,
        *,
        lags: Offsets | None = None,
        grace_ms: int = 0,
        input_rate: float | None = None,
    ) -> None:
        """Store the progress of the stream.

        Args:
            watermark_ms: The watermark in ms since the epoch; None before the first.
            lag: The number of unmerged records.
            end_offsets: The end offsets of the topics.
            lags: The numbers of unmerged records by partition.
            grace_ms: The minimum time between the end of a bucket and its completeness.
            input_rate: The consumed records per second.
        """
        with self._sink.connected().transaction():
            self._sink.connected().execute(
                "update stream_status set lag = %s, end_offsets = %s, lags = %s, input_rate = %s"
                " where stream = %s and epoch = %s",
                [lag, Jsonb(end_offsets), Jsonb(lags or {}), input_rate, STREAM, self._epoch],
            )
            if watermark_ms is not None:
                names = {"stream": STREAM, "ms": watermark_ms, "grace_ms": grace_ms}
                self._sink.connected().execute(read_sql("watermark"), names)


class Progress:
    """Compares the ends of the topics with the merged offsets, and stores the result.

    Args:
        sink: A sink for the thread that calls `store`.
        grace_ms: The minimum time between the end of a bucket and its completeness.
    """

    def __init__(self, broker: Broker, sink: PostgresSink, status: StatusWriter, *, grace_ms: int) -> None:
        self._broker, self._sink, self._status, self._grace_ms = broker, sink, status, grace_ms
        self._watermark = Watermark()
        self._consumed_before: tuple[float, int] | None = None
        self._age_emitted: float | None = None
        self._counted_before = 0

    def store(self, query: StreamingQuery) -> None:
        """Store the progress. Raises Retry or psycopg.OperationalError if a server is down."""
        ends = self._broker.ends(topic_names())
        progress = query.lastProgress
        consumed = flat(self._sink.next_offsets())
        for place, offset in flat(passed(json.loads(progress.json) if progress else None)).items():
            consumed[place] = max(offset, consumed.get(place, 0))
        lag = self._watermark.look(ends, consumed)
        lags = {
            place: max(0, end - max(consumed.get(place, 0), ends.first.get(place, 0)))
            for place, end in ends.end.items()
        }
        self._status.consumed(
            self._watermark.ms,
            lag,
            by_topic(ends.end),
            lags=by_topic({place: records for place, records in lags.items() if records}),
            grace_ms=self._grace_ms,
            input_rate=self._rate(sum(consumed.values())),
        )
        self._emit_age(sum(consumed.values()))

    def _emit_age(self, consumed: int) -> None:
        """Write the age of the counts as a metrics line, once a minute, with the ages at which records were counted."""
        now = time.monotonic()
        if self._watermark.ms is not None and consumed > self._counted_before:
            metrics.add(STAGE_LATENCY[COUNTED], max(0.0, time.time() * 1000 - self._watermark.ms))
        self._counted_before = consumed
        due = self._age_emitted is None or now - self._age_emitted >= _AGE_EVERY_S
        if self._watermark.ms is not None and due:
            self._age_emitted = now
            metrics.add(METRICS_AGE, max(0.0, time.time() - self._watermark.ms / 1000))
            metrics.write("spark_metrics")

    def _rate(self, consumed: int) -> float:
        """Return the consumed records per second since the last call."""
        now, before = time.monotonic(), self._consumed_before
        self._consumed_before = now, consumed
        return max(0.0, (consumed - before[1]) / (now - before[0])) if before else 0.0


def passed(progress: Mapping[str, Any] | None) -> Offsets:
    """Return the end offsets of the last finished batch, from Spark's progress. They include the offsets of transaction
    markers, which stream_offsets does not.
    """
    found: Offsets = {}
    for source in progress["sources"] if progress else ():
        for topic, partitions in (source["endOffset"] or {}).items():
            found[topic] = {int(partition): offset for partition, offset in partitions.items()}
    return found


def flat(offsets: Offsets) -> dict[tuple[str, int], int]:
    return {(topic, p): offset for topic, partitions in offsets.items() for p, offset in partitions.items()}
