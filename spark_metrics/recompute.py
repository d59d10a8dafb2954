"""Count again from the archive: `python -m spark_metrics.recompute --from 2026-11-21T09:30Z --to 2026-11-22 [--swap]`.

--from, --to: instants (RFC 3339) or days of UTC, the end excluded; without one the span is open on that side. A
bucket that overlaps the span is counted as a whole, in each grain: for the span above the minutes from 09:30 on, the
hours from 09:00 on, and the whole day. Sends are those requested in the span itself; counts of a send without
any of its chunks are included only if the span is open on both sides.

All three grains and the totals of the sends are computed from the archived rows, with the stream's own sums and its
rule for duplicates, and compared with the served tables; the stream may run meanwhile. Prints the rows that differ;
status 0 if none does, 1 if some do, 2 after an error.

--swap replaces the served rows by the recomputed ones, in one transaction. --check-topics also compares the archive,
position
by position, with the records that the topics still have: every archived column that is counted, decoded again.
--compact first rewrites each past hour of the archive as one file.

Settings come from the environment, as the job's.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.grains import Grain
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from masscomm.errors import MasscommError, Stop
from masscomm.untrusted import mask_root_logger
from spark_metrics import recipient_log
from spark_metrics.archive import ARCHIVED, LOCK, PLACE, Archive
from spark_metrics.archive_mark import check
from spark_metrics.archived_records import archived_facts, decoded_again, writers_in
from spark_metrics.database import connect
from spark_metrics.decode import Writers
from spark_metrics.job import kafka_options, spark_session
from spark_metrics.served import Served, log_of, tables_of
from spark_metrics.settings import Settings, settings_from
from spark_metrics.span import Span, instant
from spark_metrics.states import blocks_of
from spark_metrics.transforms import exploded, states, sums
from spark_metrics.views import complete, kept_since, load_views, maintained_since

_log = logging.getLogger("spark_metrics.recompute")

# Columns of a counted record in which the archive and its topic must agree.
_COMPARED = tuple(name for name in ARCHIVED if name not in (*PLACE, "problem"))


def positions_refused(archived: DataFrame, window_s: int, remembered: DataFrame) -> DataFrame:
    """The positions (topic, partition, kafka_offset) of records that were counted before, by the stream's own rule.

    An id is counted if it was not counted within the window before it, in the order of batches and positions; a
    refused record does not begin a new window. remembered: Archive.remembers_since, for batches that were counted with
    another window, or after ids within it had been forgotten.
    """
    archived = archived.join(F.broadcast(remembered), "attempt", "left").withColumn(
        "since_us",
        F.coalesce("since_us", F.col("counted_us") - window_s * 1_000_000),  # guard: metrics.remembered_window
    )
    place = F.struct("attempt", *PLACE, "counted_us", "since_us")
    empty = F.array().cast("array<struct<topic: string, partition: int, kafka_offset: long>>")
    state = F.struct(F.lit(None).cast("long").alias("counted_us"), empty.alias("refused"))

    def follow(so_far: Column, here: Column) -> Column:
        again = F.coalesce(so_far["counted_us"] >= here["since_us"], F.lit(False))
        refused = F.array(F.struct(*[here[name].alias(name) for name in PLACE]))
        return F.struct(
            F.when(again, so_far["counted_us"]).otherwise(here["counted_us"]).alias("counted_us"),
            F.when(again, F.concat(so_far["refused"], refused)).otherwise(so_far["refused"]).alias("refused"),
        )

    return (
        archived.where(F.col("problem").isNull())
        .groupBy("source", "record_id")
        .agg(F.array_sort(F.collect_list(place)).alias("places"))
        .where(F.size("places") > 1)
        .select(F.explode(F.aggregate("places", state, follow)["refused"]).alias("r"))
        .select("r.*")
    )


class Recompute:
    """One run over a span."""

    def __init__(self, settings: Settings, spark: SparkSession, span: Span) -> None:
        if not settings.archive_dir:
            raise Stop("SPARK_ARCHIVE_DIR is not set: there is nothing to count again")
        self._settings = settings
        self._spark = spark
        self._span = span
        self._views = load_views(settings.views)
        self._archive = Archive(spark, settings.archive_dir)

    def run(self, *, swap: bool = False, check_topics: bool = False, compact: bool = False) -> int:
        """Compare, log the rows that differ, and return their number."""
        with connect(self._settings.database_url, "spark_metrics recompute") as connection:
            check(connection, self._archive)
            logged, logged_since = maintained_since(connection, recipient_log.NAME)
            rows = partial(archived_facts, writers_of=self._writers, recipients=logged)
            if compact:
                hours = self._archive.compact(connection, rows, before=datetime.now(UTC))
                _log.info("compacted %d hours", hours)
            connection.execute("select pg_advisory_lock_shared(%s)", [LOCK])
            tables = tables_of(self._views, kept_since(connection)) | (log_of(logged_since) if logged else {})
            served = Served(connection, self._span, tables)
            # One snapshot: the served rows, and the batches that they include.
            with connection.transaction():
                connection.execute("set transaction isolation level repeatable read")
                served.remember()
                everything = self._archive.folders(connection)
                offsets = connection.execute("select topic, partition, next_offset from stream_offsets").fetchall()
                remembered = self._archive.remembers_since(connection, self._settings.redelivery_window_s)
            archived = rows(self._archive.read(everything))
            counted = self._counted(archived, remembered).persist()
            try:
                self._rebuild(served, counted)
                if logged:
                    self._rebuild_log(served, counted, logged_since)
            finally:
                counted.unpersist()
            differing = served.differing()
            for line in served.report():
                print(line)  # noqa: T201 - the command's answer
            if swap and differing:
                served.swap()
                print(f"swapped: {differing} served rows now equal the archive")  # noqa: T201
            if swap and self._span == Span():
                complete(connection, [view.table for view in self._views])
            print(f"{differing} differing rows")  # noqa: T201
            if check_topics:
                wrong = self._topics_differ(archived, offsets)
                print(f"{wrong} positions differ between archive and topics")  # noqa: T201
                differing += wrong
            return differing

    def _counted(self, archived: DataFrame, remembered: DataFrame) -> DataFrame:
        """The facts of every record that the stream counts."""
        refused = positions_refused(archived, self._settings.redelivery_window_s, remembered)
        return archived.where(F.col("problem").isNull()).join(refused, list(PLACE), "left_anti")

    def _writers(self, wanted: Sequence[tuple[str, int]]) -> Writers:
        return writers_in(self._settings.registry_url, self._spark)(wanted)

    def _rebuild(self, served: Served, counted: DataFrame) -> None:
        summed = counted.transform(exploded).transform(sums).persist()
        for grain in Grain:
            step = grain.seconds
            rows = (
                summed.where(_within(F.col("minute_s") * 1000, self._span.whole(step)) & (F.col("count_total") > 0))
                .groupBy(
                    F.expr(f"minute_s div {step} * {step}").alias("bucket_s"), "club_id", "type", "channel", "measure"
                )
                .agg(F.sum("count_total").alias("count_total"))
            )
            served.rebuilt(grain.table, ((datetime.fromtimestamp(r[0], UTC), *r[1:]) for r in rows.toLocalIterator()))
        sent = F.col("source") == "send"
        sends = (
            summed.groupBy("send_id")
            .agg(
                F.min(F.when(sent, F.struct("first_ms", "club_id", "type"))).alias("first"),
                F.max("chunk_count").alias("chunk_count"),
                F.sum(F.when(sent, F.col("records")).otherwise(0)).alias("chunks"),
            )
            .select("send_id", "chunks", "chunk_count", "first.*")
            .where(F.col("first_ms").isNotNull() & _within(F.col("first_ms"), self._span))
            .persist()
        )
        served.rebuilt(
            "sends",
            (
                (r["send_id"], r["chunks"], r["club_id"], r["type"], _at(r["first_ms"]), r["chunk_count"])
                for r in sends.toLocalIterator()
            ),
        )

        def of_sends(frame: DataFrame) -> DataFrame:
            return frame if self._span == Span() else frame.join(sends.select("send_id"), "send_id", "left_semi")

        def of(measure: str) -> Column:
            return F.coalesce(F.sum(F.when(F.col("measure") == measure, F.col("count_total"))), F.lit(0))

        channels = (
            summed.transform(of_sends)
            .where(F.col("channel").isNotNull() & F.col("source").isin("send", "delivery"))
            .groupBy("send_id", "channel")
            .agg(of(REQUESTED), of(DUPLICATE), of(QUEUED))
        )
        served.rebuilt("send_channels", map(tuple, channels.toLocalIterator()))
        known = counted.transform(of_sends).transform(states)
        for view in self._views:
            rebuilt = (
                summed.transform(view.transform)
                .withColumn("bucket", F.unix_millis("bucket"))
                .where(_within(F.col("bucket"), served.tables[view.table].touched(self._span)))
                .groupBy(*view.keys)
                .agg(*[F.sum(name).alias(name) for name in view.sums])
            )
            place = view.keys.index("bucket")
            served.rebuilt(
                view.table, ((*r[:place], _at(r[place]), *r[place + 1 :]) for r in rebuilt.toLocalIterator())
            )
        served.rebuilt_states(
            ((r[0], r[1], r[2], block), codes)
            for r in known.toLocalIterator()
            for block, codes in blocks_of(r["told"]).items()
        )
        sends.unpersist()
        summed.unpersist()

    def _rebuild_log(self, served: Served, counted: DataFrame, since: datetime | None) -> None:
        in_span = counted.where(_within(F.col("at_ms"), self._span))
        if since is not None:
            in_span = in_span.where(F.col("counted_us") >= round(since.timestamp() * 1_000_000))
        rows = in_span.transform(recipient_log.recipients).transform(recipient_log.compared)
        served.rebuilt(recipient_log.NAME, map(tuple, rows.toLocalIterator()))

    def _topics_differ(self, archived: DataFrame, offsets: Sequence[tuple[str, int, int]]) -> int:
        """Number of positions below the stream's offsets that differ between the topics and the archive, or that only
        one has.
        """
        if not offsets:
            return 0
        options = kafka_options(self._settings)
        held = self._spark.read.format("kafka").options(**options).option("includeHeaders", True).load()
        ends = self._spark.createDataFrame(offsets, "topic string, partition int, next_offset long")
        held = (
            held.join(F.broadcast(ends), ["topic", "partition"])
            .where(F.col("offset") < F.col("next_offset"))
            .withColumn("timestamp_ms", F.unix_millis("timestamp"))
            .withColumnRenamed("offset", "kafka_offset")
            .join(archived.select(*PLACE, "source", "counts"), list(PLACE), "left")
            .coalesce(self._spark.sparkContext.defaultParallelism)
        )
        ids = archived.where(F.col("problem").isNull()).select("source", "schema_id").distinct().collect()
        writers = self._writers([(row["source"], row["schema_id"]) for row in ids])
        digest = F.xxhash64(*_COMPARED)
        held = (
            decoded_again(held, writers)
            .select(*PLACE, digest.alias("held"))
            .withColumn("in_topic", F.lit(True))
            .persist()
        )
        first = held.groupBy("topic", "partition").agg(F.min("kafka_offset").alias("first"))
        stored = (
            archived.join(F.broadcast(first), ["topic", "partition"])
            .where(F.col("kafka_offset") >= F.col("first"))
            # For a record that is not counted, only the position is compared.
            .select(*PLACE, F.when(F.col("problem").isNull(), digest).alias("stored"))
            .withColumn("in_archive", F.lit(True))
            .persist()
        )
        same = F.col("in_topic") & F.col("in_archive") & F.coalesce(F.col("held") == F.col("stored"), F.lit(True))
        # A position that the archive has twice joins twice; the count of distinct positions shows it.
        twice = stored.count() - stored.select(*PLACE).distinct().count()
        return held.join(stored, list(PLACE), "full").where(~F.coalesce(same, F.lit(False))).count() + twice


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def _within(at_ms: Column, span: Span) -> Column:
    first_ms, end_ms = span.milliseconds()
    begun = F.lit(True) if first_ms is None else at_ms >= first_ms
    return begun if end_ms is None else begun & (at_ms < end_ms)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the process's exit status."""
    parser = argparse.ArgumentParser(prog="spark_metrics.recompute", description="Count again from the archive.")
    parser.add_argument(
        "--from", dest="first", type=instant, help="the first instant, or a UTC day; else the first of all"
    )
    parser.add_argument("--to", dest="end", type=instant, help="the end of the span, excluded; else open")
    parser.add_argument("--swap", action="store_true", help="serve the recomputed rows")
    parser.add_argument("--check-topics", action="store_true", help="compare the archive with the topics too")
    parser.add_argument("--compact", action="store_true", help="write each past hour as one file first")
    chosen = parser.parse_args(arguments)
    if chosen.first and chosen.end and chosen.first >= chosen.end:
        parser.error("--to must be later than --from")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        settings = settings_from()
        spark = spark_session(settings)
        try:
            differing = Recompute(settings, spark, Span(chosen.first, chosen.end)).run(
                swap=chosen.swap, check_topics=chosen.check_topics, compact=chosen.compact
            )
        finally:
            spark.stop()
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return 2
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
