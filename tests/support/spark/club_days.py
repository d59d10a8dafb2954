"""Views for tests: the notifications of a club by day and by week."""

from dataclasses import replace
from datetime import timedelta

from spark_metrics.counting.views import View

DAY_S = 86_400
TABLE = (
    b"create table club_days (bucket timestamptz, club_id bigint, count_total bigint not null,"
    b" primary key (bucket, club_id))"
)


CLUB_DAYS = View(
    table="club_days",
    dimensions={"club_id": "club_id"},
    measures={"count_total": "count_total"},
    where="count_total > 0",
    step_s=DAY_S,
    keep=timedelta(days=3),
)
CLUB_WEEKS = replace(CLUB_DAYS, table="club_weeks", step_s=7 * DAY_S, keep=None)
