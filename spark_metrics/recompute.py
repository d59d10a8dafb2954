"""Counts a span again from the archive: `python -m spark_metrics.recompute --from 2026-11-21T09:30Z --to 2026-11-22
[--swap]`.

--from and --to are instants (RFC 3339) or UTC days; the end is excluded. Without --from or --to, the span is open on
that side. A bucket that overlaps the span is counted as a whole, in each grain: in the example, the minutes from 09:30,
the hours from 09:00, and the whole day. Sends are those that were requested in the span. The counts of a send without
any chunk are included only if the span is open on both sides.

The command merges the archived records as the stream merges those of the topics: by the same task in lanes, on
executors, but into the tables of the schema `recompute`, one part of the hours after the other. It counts the records
that the stream has counted: those below its offsets that are neither in `quarantine` nor in `redelivered`. It reads the
records of the span's days and, for the sends of the span, all later ones and those up to 25 hours earlier, by their own
time or by the time of their production. It compares the results with the served tables; the stream may run
concurrently. The command prints the rows that differ, and the ids that were counted twice within the redelivery window.
Its status is 0 if there are none, 1 if rows differ, and 2 after an error. With --json it prints one JSON object.

--swap replaces the served rows by the recomputed ones in one transaction. --check-topics also decodes the records that
are still in the topics, and compares each counted column with the archive. --day-before compares the last whole day of
UTC, and emits the number of differing rows as a metric.

The settings are the environment variables of the job.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from masscomm.errors import Retry, Stop
from masscomm.observability import metrics
from masscomm.observability.metric_names import METRICS_DIFFERENCES
from spark_metrics.archive.iceberg import PLACE, Appended
from spark_metrics.archive.mark import check_table
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.archive.topic_check import topics_differ
from spark_metrics.common.command import exit_status_with_spark
from spark_metrics.common.database import connect, postgres_errors
from spark_metrics.common.settings import Settings
from spark_metrics.common.sources import WEBHOOK_OUTCOME, kinds_of_topics
from spark_metrics.common.span import AHEAD, CLOCKS, RESULTS_APART, Span, instant
from spark_metrics.counting import recipient_log
from spark_metrics.counting.lane_merge import Plan
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.served import SCHEMA, TABLES, RecomputedTables, Served, log_of, tables_of
from spark_metrics.counting.sink import between_batches
from spark_metrics.counting.views import begun_since, complete, kept_since, load_views, maintained_since
from spark_metrics.sql import read_sql

_POLL_S = 1.0
# The records of a part, which its lanes merge in one transaction each: this bounds their temporary tables.
_PART = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a run has found."""

    # A line with both values for each row that differs, at most twenty per table.
    differences: list[str]
    differing_rows: int
    # The number of record ids that were counted twice within the redelivery window.
    counted_twice: int
    # The number of positions that differ between archive and topics; None: the topics were not compared.
    differing_positions: int | None
    # Whether the served rows have been replaced by the recomputed ones.
    swapped: bool

    @property
    def problems(self) -> int:
        """Return the number of all findings; 0 if the served rows are those of the archive."""
        return self.differing_rows + self.counted_twice + (self.differing_positions or 0)


class Recompute:
    """Counts a span again and compares the results with the served rows.

    Args:
        report: A function that is called with each line of the command's answer.
    """

    def __init__(
        self, settings: Settings, spark: SparkSession, span: Span, report: Callable[[str], object] = print
    ) -> None:
        self._report = report
        self._settings = settings
        self._spark = spark
        self._span = span
        self._views = load_views(settings.views)
        self._table = ArchiveTable(spark, settings)
        # A record of a send may be this much earlier than the send's request, whose time may be after its production.
        self._slack = AHEAD + CLOCKS

    def run(self, *, swap: bool = False, check_topics: bool = False, wait_s: float = 600) -> Comparison:
        """Compare the served rows with the recomputed ones, and report the rows that differ.

        Args:
            wait_s: How long the archive may be behind the counts.

        Raises:
            Retry: The archive, the database or the stream is not ready, or compared rows changed meanwhile.
            Stop: The archive is not this database's, or has no records of the span any more.
        """
        names = [*TABLES, *[view.table for view in self._views], recipient_log.NAME]
        with (
            connect(self._settings.database_url, "spark_metrics recompute") as connection,
            closing(RecomputedTables(connection, names)) as recomputed,
        ):
            check_table(connection, self._table)
            kept = self._table.kept_since()
            self._leave_out_deleted(kept)
            # One transaction reads the served rows and the positions that they include.
            with ExitStack() as snapshot:
                with between_batches(connection):
                    snapshot.enter_context(connection.transaction())
                    connection.execute("set transaction isolation level repeatable read")
                    offsets = connection.execute("select topic, partition, next_offset from stream_offsets").fetchall()
                logged, logged_since = maintained_since(connection, recipient_log.NAME)
                if logged_since is not None:
                    # From then on, each event with a later time was counted while the log was written, and is kept.
                    logged_since += AHEAD
                # A view that began later lacks the earlier counts, until they are swapped in.
                begun = {} if swap else {name: since + AHEAD for name, since in begun_since(connection).items()}
                compared = tables_of(self._views, kept_since(connection), kept, begun)
                served = Served(connection, self._span, compared | (log_of(logged_since) if logged else {}))
                served.remember()
                read = self._read_span(served)
                since = read.first and read.first - self._slack
                uncounted = connection.execute(read_sql("uncounted_positions"), {"first": since}).fetchall()
            end = self._await_archive(offsets, wait_s)
            # Retention stores this time before it deletes records.
            if self._table.kept_since() != kept:  # guard: recompute.deleted_records
                raise Retry("records were deleted from the archive meanwhile: run it again")
            archived = self._archived(end, offsets, read)
            places = self._spark.createDataFrame(uncounted, "topic string, partition int, kafka_offset long")
            counted = archived.where(F.col("problem").isNull()).join(places, list(PLACE), "left_anti")
            wanted = counted.transform(self._of_span, served.touched())
            self._merge(wanted, self._parts(end, read), recomputed, logged=logged)
            differing = served.differing()
            recomputed.close()
            differences = list(served.report())
            for line in differences:
                self._report(line)
            if swap and differing:
                served.swap()
                self._report(f"swapped: {differing} served rows now equal the archive")
            if swap and self._span == Span():
                complete(connection, [view.table for view in self._views])
            self._report(f"{differing} differing rows")
            if twice := counted_twice(counted, self._settings.redelivery_window_s).count():
                self._report(f"{twice} record ids were counted twice within the redelivery window")
            wrong = None
            if check_topics:
                wrong = topics_differ(self._spark, self._settings, archived, offsets)
                self._report(f"{wrong} positions differ between archive and topics")
            return Comparison(
                differences=differences,
                differing_rows=differing,
                counted_twice=twice,
                differing_positions=wrong,
                swapped=swap and differing > 0,
            )

    def _leave_out_deleted(self, kept: datetime | None) -> None:
        """Limit the span to sends and buckets whose records the archive still has. Raises Stop if there are none."""
        if kept is None:
            return
        first = kept + self._slack
        if self._span.end is not None and self._span.end <= first:
            raise Stop(
                f"The archive has no records before {kept.isoformat()} any more, so it can compare from {first} on."
            )
        if self._span.first is None or self._span.first < first:
            self._report(f"compared from {first} on: the archive has no records before {kept}")
            self._span = self._span.since(first)

    def _read_span(self, served: Served) -> Span:
        """Return the span of the archive that is read."""
        first = _with_results(served.touched()).first
        return Span(first and min(first, self._span.first - self._slack) if self._span.first else None)

    def _await_archive(self, offsets: Sequence[tuple[str, int, int]], wait_s: float) -> Appended:
        """Return the end of the archive when it has all records below these offsets. Raises Retry after wait_s."""
        deadline = time.monotonic() + wait_s
        while True:
            archived = self._table.appended()
            behind = [
                f"{topic}-{partition} ends at {archived.offsets.get((topic, partition), 0)}, counted are {offset}"
                for topic, partition, offset in offsets
                if archived.offsets.get((topic, partition), 0) < offset
            ]
            if not behind:
                return archived
            if time.monotonic() > deadline:
                raise Retry(
                    f"the archive stayed behind the counts for {wait_s:.0f} s: {behind[0]}. Is the job running?"
                )
            time.sleep(_POLL_S)

    def _archived(self, end: Appended, offsets: Sequence[tuple[str, int, int]], read: Span) -> DataFrame:
        """Return the archived records of the read span that the stream has consumed."""
        ends = F.broadcast(self._spark.createDataFrame(list(offsets), "topic string, partition int, next_offset long"))
        records = self._table.records(end.snapshot)
        if read.first is not None:
            # A wrong clock may have dated a record of a send long before its request.
            produced = F.col("timestamp_ms") >= round(read.first.timestamp() * 1000)  # guard: recompute.wrong_clock
            records = records.where(_within(read) | produced)
        # guard: metrics.archived_beyond_the_counts
        consumed = records.join(ends, ["topic", "partition"]).where(F.col("kafka_offset") < F.col("next_offset"))
        return consumed.drop("next_offset")

    def _of_span(self, counted: DataFrame, touched: Span) -> DataFrame:
        """Return the facts of the compared buckets, and all those of the sends that have a chunk in the span."""
        if touched == Span():
            return counted
        chunks = counted.where((F.col("source") == "send") & _within(self._span))
        sends = chunks.select("send_id").distinct().persist()
        others = counted.where(~_within(touched)).join(sends, "send_id", "left_semi")
        # guard: recompute.results_of_webhooks
        results = (F.col("source") == WEBHOOK_OUTCOME.kind) & _within(_with_results(touched))
        return counted.where(_within(touched) | results).unionByName(others)

    def _parts(self, end: Appended, read: Span) -> list[Span]:
        """Return spans of whole hours that together are all time."""
        hours = self._table.hours(end.snapshot)
        return parts([(hour, records) for hour, records in hours if read.first is None or hour > read.first])

    def _merge(self, counted: DataFrame, parts: Sequence[Span], tables: RecomputedTables, *, logged: bool) -> None:
        """Merge facts in lanes, as the stream does, but into the tables of the schema `recompute`."""
        lanes = Lanes(self._spark, self._settings.lanes, recipients=logged)
        # The archive has each position once, and no redelivered record is among these: no id is needed.
        counted = counted.withColumn("id", F.lit(None).cast("binary"))
        # The archive has no decisions, and the log's are not compared.
        counted = counted.withColumn("decisions", F.lit(None).cast("string"))
        for part in parts:
            plan = Plan(
                database_url=self._settings.database_url,
                schema=SCHEMA,
                epoch=tables.begin_part(),
                lanes=lanes.number,
                counted_at=datetime.now(UTC),
                tables=None,
                kinds=kinds_of_topics(),
                views=tuple(view.merge_statement() for view in self._views),
                recipients=logged,
                webhook_successes=self._settings.webhook_successes,
            )
            with postgres_errors():
                results = lanes.merge(lanes.rows(counted.where(_within(part))), plan)
            if rejected := [result.rejected for result in results if result.rejected is not None]:
                raise Stop(f"Postgres rejects recomputed rows: {rejected[0]}")
            if any(result.taken_by is not None for result in results):
                raise Retry("another recompute has begun meanwhile")


def parts(hours: Sequence[tuple[datetime, int]]) -> list[Span]:
    """Divide all time into spans of whole hours, each with at most _PART records unless an hour has more.

    Args:
        hours: Hours and their numbers of records, in their order.
    """
    begins: list[datetime] = []
    size = 0
    for hour, records in hours:
        if size and size + records > _PART:
            begins.append(hour)
            size = 0
        size += records
    return [Span(*ends) for ends in pairwise([None, *begins, None])]


def counted_twice(counted: DataFrame, window_s: int) -> DataFrame:
    """Return the ids (source, record_id) of several counted records that were produced within the redelivery window."""
    before = F.lag("timestamp_ms").over(Window.partitionBy("source", "record_id").orderBy("timestamp_ms"))
    apart = counted.withColumn("apart_ms", F.col("timestamp_ms") - before)
    return apart.where(F.col("apart_ms") < window_s * 1000).select("source", "record_id").distinct()


def _with_results(span: Span) -> Span:
    """Return the span with the records whose results of webhooks may be in it."""
    return Span(span.first and span.first - RESULTS_APART, span.end and span.end + RESULTS_APART)


def _within(span: Span) -> Column:
    at = F.col("at")
    begun = F.lit(True) if span.first is None else at >= F.lit(span.first)
    return begun if span.end is None else begun & (at < F.lit(span.end))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.recompute", description="Count again from the archive.")
    parser.add_argument(
        "--from", dest="first", type=instant, help="the first instant, or a UTC day; else the first of all"
    )
    parser.add_argument("--to", dest="end", type=instant, help="the end of the span, excluded; else open")
    parser.add_argument("--swap", action="store_true", help="serve the recomputed rows")
    parser.add_argument("--check-topics", action="store_true", help="compare the archive with the topics too")
    parser.add_argument("--day-before", action="store_true", help="the last whole day of UTC")
    parser.add_argument("--wait-s", type=float, default=600, help="how long the archive may be behind; 600")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    if chosen.day_before:
        if chosen.first or chosen.end:
            parser.error("--day-before has no --from or --to")
        chosen.end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        chosen.first = chosen.end - timedelta(days=1)
    if chosen.first and chosen.end and chosen.first >= chosen.end:
        parser.error("--to must be later than --from")

    def work(settings: Settings, spark: SparkSession) -> int:
        report: Callable[[str], object] = (lambda _line: None) if chosen.json else print
        found = Recompute(settings, spark, Span(chosen.first, chosen.end), report).run(
            swap=chosen.swap, check_topics=chosen.check_topics, wait_s=chosen.wait_s
        )
        if chosen.json:
            print(json.dumps(asdict(found)))  # noqa: T201 - the command's answer
        if chosen.day_before:
            metrics.add(METRICS_DIFFERENCES, found.problems)
        return 1 if found.problems else 0

    return exit_status_with_spark(work, daily_run="recompute" if chosen.day_before else None)


if __name__ == "__main__":
    sys.exit(main())
