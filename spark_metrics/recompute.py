"""Counts a span again from the archive: `python -m spark_metrics.recompute --from 2026-11-21T09:30Z --to 2026-11-22
[--swap]`.

--from and --to are instants (RFC 3339) or UTC days; the end is excluded. Without --from or --to, the span is open on
that side. A bucket that overlaps the span is counted as a whole, in each grain: in the example, the minutes from 09:30,
the hours from 09:00, and the whole day. Sends are those that were requested in the span. The counts of a send without
any chunk are included only if the span is open on both sides.

The command computes all three grains and the totals of the sends from the archived rows, with the same sums and the
same rule for duplicates as the stream. It compares the results with the served tables; the stream may run concurrently.
The command prints the rows that differ. Its status is 0 if no row differs, 1 if rows differ, and 2 after an error.

--swap replaces the served rows by the recomputed ones in one transaction. --check-topics also decodes the records that
are still in the topics, and compares each counted column with the archive. --compact first rewrites each past hour of
the archive as one file.

The settings are the environment variables of the job.
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
from spark_metrics.archive import LOCK, Archive
from spark_metrics.archive_mark import check
from spark_metrics.archive_table import ARCHIVED, PLACE
from spark_metrics.archived_records import archived_facts, decoded_again, writers_in
from spark_metrics.database import connect
from spark_metrics.decode import Writers
from spark_metrics.served import Served, log_of, tables_of
from spark_metrics.session import kafka_options, spark_session
from spark_metrics.settings import Settings, settings_from
from spark_metrics.span import Span, instant
from spark_metrics.states import blocks_of
from spark_metrics.sums import exploded, states, sums
from spark_metrics.views import complete, kept_since, load_views, maintained_since

_log = logging.getLogger("spark_metrics.recompute")

# The columns of a counted record that must be equal in the archive and the topic.
_COMPARED = tuple(name for name in ARCHIVED if name not in (*PLACE, "problem"))


def positions_refused(archived: DataFrame, window_s: int, remembered: DataFrame) -> DataFrame:
    """Return the positions (topic, partition, kafka_offset) of redeliveries, by the rule of the stream.

    A record is counted if no record with its id was counted within the redelivery window before it, in the order of
    batches and positions. A redelivery does not begin a new window.

    Args:
        remembered: The result of Archive.remembers_since, for batches that were counted with a different window.
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
    def __init__(self, settings: Settings, spark: SparkSession, span: Span) -> None:
        if not settings.archive_dir:
            raise Stop("SPARK_ARCHIVE_DIR is not set: there is nothing to count again")
        self._settings = settings
        self._spark = spark
        self._span = span
        self._views = load_views(settings.views)
        self._archive = Archive(spark, settings.archive_dir)

    def run(self, *, swap: bool = False, check_topics: bool = False, compact: bool = False) -> int:
        """Compare the served rows with the recomputed ones, print the rows that differ, and return their number."""
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
            # One transaction reads the served rows and the batches that they include, so that both have the same state.
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
        """Return the facts of the records that the stream counts."""
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
            for block, codes in blocks_of(r["entries"]).items()
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
        """Return the number of positions below the stream's offsets that differ between topics and archive, or are
        missing in one of them.
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
            # Only the position of an uncounted record is compared.
            .select(*PLACE, F.when(F.col("problem").isNull(), digest).alias("stored"))
            .withColumn("in_archive", F.lit(True))
            .persist()
        )
        same = F.col("in_topic") & F.col("in_archive") & F.coalesce(F.col("held") == F.col("stored"), F.lit(True))
        # The join does not detect a position that the archive contains twice.
        twice = stored.count() - stored.select(*PLACE).distinct().count()
        return held.join(stored, list(PLACE), "full").where(~F.coalesce(same, F.lit(False))).count() + twice


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def _within(at_ms: Column, span: Span) -> Column:
    first_ms, end_ms = span.milliseconds()
    begun = F.lit(True) if first_ms is None else at_ms >= first_ms
    return begun if end_ms is None else begun & (at_ms < end_ms)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status of the process."""
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
