"""Compares everything that is served with metrics that were computed by hand."""

from collections import Counter
from typing import Any

import psycopg

from tests.support.spark.metrics_by_hand import ExpectedMetrics


def assert_is(expected: ExpectedMetrics, database: str) -> None:
    """Check that recompute finds no difference in the grains, the totals, the log and the quarantine."""
    with psycopg.connect(database) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode()).fetchall()

        for grain, step_ms in (("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000)):
            served = rows(
                "select extract(epoch from bucket)::bigint * 1000, club_id, type, channel, measure, sum(count_total)"  # noqa: S608
                f" from counts_{grain} group by bucket, club_id, type, channel, measure"
            )
            assert {row[:5]: row[5] for row in served} == expected.buckets(step_ms), grain
        for name, step_ms in (("latency_minute", 60_000), ("latency_hour", 3_600_000)):
            served = rows(
                "select extract(epoch from bucket)::bigint * 1000, type, channel, measure, bin, sum(count_total)"  # noqa: S608
                f" from {name} group by bucket, type, channel, measure, bin"
            )
            assert {row[:5]: row[5] for row in served} == expected.latency_buckets(step_ms), name
        reasons = rows(
            "select extract(epoch from bucket)::bigint * 1000, club_id, type, channel, measure, reason,"
            " sum(count_total) from reasons_hour group by bucket, club_id, type, channel, measure, reason"
        )
        assert {row[:6]: row[6] for row in reasons} == expected.reasons
        templates = rows(
            "select extract(epoch from bucket)::bigint * 1000, club_id, template, locale, measure, sum(total)"
            " from template_days group by bucket, club_id, template, locale, measure"
        )
        assert {row[:5]: row[5] for row in templates} == +expected.by_template
        totals = rows("select send_id, channel, status, reason, count_total from send_totals")
        assert {row[:4]: row[4] for row in totals} == expected.totals()
        requested = rows("select send_id, channel, requested from send_channels where requested > 0")
        assert {row[:2]: row[2] for row in requested} == +expected.requested
        log = rows(
            "select user_id, (extract(epoch from at) * 1000)::bigint, send_id, channel, club_id, type, status, reason"
            " from recipient_log"
        )
        assert Counter(log) == expected.log
        assert set(rows("select topic, partition, kafka_offset from quarantine")) == expected.quarantined
