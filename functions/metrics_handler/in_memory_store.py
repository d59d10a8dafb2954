"""The metrics without a server, for unit tests; it passes the same contract test as Postgres."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

from functions.metrics_handler.metrics_store import Count, Counts, Dimension, Granularity, MetricsQuery, SendTotals


@dataclass(frozen=True, kw_only=True)
class StoredCount:
    """A row of one of the three tables."""

    granularity: Granularity
    bucket: datetime
    club_id: int
    type: str
    channel: str
    measure: str
    count_total: int


@dataclass
class InMemoryMetricsStore:
    """The port metrics_store.MetricsStore over lists; sends by their id."""

    stored: list[StoredCount] = field(default_factory=list)
    sends: dict[str, SendTotals] = field(default_factory=dict)
    watermark: datetime | None = None

    def counts(self, query: MetricsQuery) -> Counts:
        totals: Counter[tuple[datetime, tuple[int | str, ...]]] = Counter()
        for row in self.stored:
            if row.granularity is not query.granularity or not query.start <= row.bucket < query.end:
                continue
            if all(not getattr(query, name) or getattr(row, name) in getattr(query, name) for name in Dimension):
                totals[row.bucket, tuple(getattr(row, name) for name in query.dimensions)] += row.count_total
        rows = [Count(bucket, values, total) for (bucket, values), total in sorted(totals.items())]
        return Counts(rows[: query.limit], len(rows) > query.limit, self.watermark)

    def send(self, send_id: str) -> SendTotals | None:
        known = self.sends.get(send_id)
        return replace(known, watermark=self.watermark) if known else None
