"""The tests that every metrics store must pass for the results of webhook messages, in memory and real."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from masscomm.domain.grains import Grain
from masscomm.stores.metrics.in_memory import StoredWebhookCount
from masscomm.stores.metrics.port import (
    MetricsStore,
    WebhookCount,
    WebhookCountKey,
    WebhookCountsQuery,
    WebhookLogKey,
    WebhookLogQuery,
    WebhookLogRow,
)
from tests.support.harness import operations_api

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ENDPOINT, OTHER = "ep_7_aaaaaaaaaaaaaaaaaaaa", "ep_7_bbbbbbbbbbbbbbbbbbbb"

type Stored = Callable[[Sequence[WebhookLogRow], Sequence[StoredWebhookCount]], MetricsStore]


def attempt(message_id: str, **changes: Any) -> WebhookLogRow:
    at, number = changes.pop("at", NOON), changes.pop("attempt", 1)
    given: dict[str, Any] = {
        "endpoint_id": ENDPOINT,
        "club_id": 7,
        "type": "match.finished",
        "status": "delivered",
        "duration_ms": 12,
        "event_id": "e",
        "http_status": 200,
        "error": "",
    }
    return WebhookLogRow(key=WebhookLogKey(at, message_id, number), **given | changes)


ROWS = [
    attempt("b"),
    attempt("a", status="retried", http_status=None, error="no answer"),
    attempt("a", attempt=2, at=NOON + HOUR),
    attempt("Z", club_id=8, type="match.started"),
    attempt("a", attempt=3),
    attempt("c", endpoint_id=OTHER),
]


def counted(
    number: int,
    at: datetime = NOON,
    *,
    grain: Grain = Grain.HOUR,
    endpoint_id: str = ENDPOINT,
    club_id: int = 7,
    status: str = "delivered",
    category: str = "match.finished",
) -> StoredWebhookCount:
    count = WebhookCount(WebhookCountKey(at, club_id, category, status), number, 10 * number)
    return StoredWebhookCount(grain, endpoint_id, count)


def results_of(club_id: int) -> dict[str, Any]:
    """Return the fields of a store in memory with an attempt for the club's endpoint of operations_api."""
    given: dict[str, Any] = {"endpoint_id": operations_api.endpoint_id(club_id), "club_id": club_id}
    return {
        "webhook_rows": [attempt("canary", **given)],
        "stored_webhooks": [counted(3, grain=grain, category="canary", **given) for grain in Grain],
    }


COUNTS = [
    counted(1),
    counted(2, status="retried"),
    counted(3, NOON + HOUR),
    counted(4, NOON - HOUR),
    counted(5, club_id=8, category="match.started"),
    counted(6, grain=Grain.MINUTE),
    counted(7, endpoint_id=OTHER),
    counted(8, category="Match"),
]


class WebhookResultsContract:
    """Subclasses define the fixture `stored`, a function that returns a store with these rows."""

    def test_log_has_the_latest_attempts_first(self, stored: Stored) -> None:
        found = stored(ROWS, []).webhook_log(WebhookLogQuery(endpoint_id=ENDPOINT))
        assert found.rows == [ROWS[2], ROWS[0], ROWS[4], ROWS[1], ROWS[3]]
        assert (found.more, found.kept_since) == (False, None)

    def test_log_is_filtered(self, stored: Stored) -> None:
        store = stored(ROWS, [])

        def keys(**filters: Any) -> list[tuple[str, int]]:
            rows = store.webhook_log(WebhookLogQuery(endpoint_id=ENDPOINT, **filters)).rows
            return [(row.key.message_id, row.key.attempt) for row in rows]

        assert keys(status=("retried", "given_up")) == [("a", 1)]
        assert keys(type=("match.started",)) == [("Z", 1)]
        assert keys(club_id=(8, 9)) == [("Z", 1)]
        assert keys(start=NOON + HOUR) == [("a", 2)]
        assert keys(end=NOON + HOUR) == [("b", 1), ("a", 3), ("a", 1), ("Z", 1)]
        assert keys(end=NOON) == []

    def test_log_has_the_latest_attempt_of_each_message(self, stored: Stored) -> None:
        store = stored(ROWS, [])
        latest = WebhookLogQuery(endpoint_id=ENDPOINT, is_latest=True)
        assert store.webhook_log(latest).rows == [ROWS[2], ROWS[0], ROWS[3]]
        of_one = replace(latest, is_latest=False, message_id=("a", "c"))
        assert store.webhook_log(of_one).rows == [ROWS[2], ROWS[4], ROWS[1]]

    def test_pages_of_the_log_are_the_whole_log(self, stored: Stored) -> None:
        store = stored(ROWS, [])
        query, rows = WebhookLogQuery(endpoint_id=ENDPOINT, limit=2), list[WebhookLogRow]()
        while (page := store.webhook_log(query)).more:
            assert len(page.rows) == 2
            rows += page.rows
            query = replace(query, after=rows[-1].key)
        assert [*rows, *page.rows] == store.webhook_log(replace(query, limit=9, after=None)).rows

    def test_counts_are_filtered_and_in_order(self, stored: Stored) -> None:
        store = stored([], COUNTS)

        def numbers(**filters: Any) -> list[int]:
            given: dict[str, Any] = {"granularity": Grain.HOUR, "start": NOON, "end": NOON + 2 * HOUR} | filters
            return [
                row.count_total for row in store.webhook_counts(WebhookCountsQuery(endpoint_id=ENDPOINT, **given)).rows
            ]

        assert numbers() == [8, 1, 2, 5, 3]
        assert numbers(end=NOON + HOUR) == [8, 1, 2, 5]
        assert numbers(granularity=Grain.MINUTE) == [6]
        assert numbers(status=("retried",)) == [2]
        assert numbers(type=("match.started", "Match")) == [8, 5]
        assert numbers(club_id=(8,)) == [5]

    def test_pages_of_counts_are_all_counts(self, stored: Stored) -> None:
        store = stored([], COUNTS)
        query = WebhookCountsQuery(
            granularity=Grain.HOUR, endpoint_id=ENDPOINT, start=NOON - HOUR, end=NOON + 2 * HOUR, limit=1
        )
        rows = list[WebhookCount]()
        while (page := store.webhook_counts(query)).more:
            rows += page.rows
            query = replace(query, after=rows[-1].key)
        assert [row.count_total for row in [*rows, *page.rows]] == [4, 8, 1, 2, 5, 3]
        assert rows[0].duration_ms_total == 40
