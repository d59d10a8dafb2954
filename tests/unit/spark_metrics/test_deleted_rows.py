from datetime import UTC, datetime, timedelta

from spark_metrics.common.span import AHEAD, Span
from spark_metrics.counting.served import tables_of

KEPT = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_deleted_rows_are_not_compared() -> None:
    """A send is deleted by the time of its first record, which may be an hour before that of its request."""
    kept = {"counts_minute": KEPT, "sends": KEPT + DAY, "webhook_log": KEPT + 2 * DAY}
    tables = tables_of((), kept, None)
    compared = {name: table.touched(Span()).first for name, table in tables.items()}
    assert compared == {
        "counts_minute": KEPT,
        **dict.fromkeys(("counts_hour", "counts_day")),
        **dict.fromkeys(("webhook_counts_minute", "webhook_counts_hour", "webhook_counts_day")),
        "webhook_log": KEPT + 2 * DAY,
        **dict.fromkeys(("sends", "send_channels", "send_totals", "send_states"), KEPT + DAY + AHEAD),
    }
    later = Span(KEPT + 9 * DAY, KEPT + 10 * DAY)
    assert {table.touched(later) for table in tables.values()} == {later}
