from datetime import UTC, datetime, timedelta

from spark_metrics.common.span import AHEAD, Span
from spark_metrics.counting.served import tables_of

KEPT = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def test_deleted_rows_are_not_compared() -> None:
    """A send is deleted by the time of its first record, which may be an hour before that of its request."""
    tables = tables_of((), {"counts_minute": KEPT, "sends": KEPT + DAY}, None)
    compared = {name: table.touched(Span()).first for name, table in tables.items()}
    assert compared == {
        "counts_minute": KEPT,
        "counts_hour": None,
        "counts_day": None,
        **dict.fromkeys(("sends", "send_channels", "send_totals", "send_states"), KEPT + DAY + AHEAD),
    }
    later = Span(KEPT + 9 * DAY, KEPT + 10 * DAY)
    assert {table.touched(later) for table in tables.values()} == {later}
