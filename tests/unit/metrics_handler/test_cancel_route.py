from datetime import UTC, datetime
from typing import Any

import pytest

from functions.metrics_handler.routes.cancel import CancelRoute
from functions.metrics_handler.routes.send import SendRoute
from functions.metrics_handler.store.in_memory import InMemoryMetricsStore
from functions.metrics_handler.store.port import ChannelTotals, SendTotals
from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log import InMemoryAuditLog
from masscomm.stores.cancellations import InMemoryCancellations, SendKey

OWN = Clubs(frozenset({7}))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Api:
    """The routes of a send and of its cancellation over one store: club 7 sends to 100 users, 40 are published."""

    def __init__(self) -> None:
        self.clock = FixedClock(1_700_000_000_000)
        self.cancellations = InMemoryCancellations()
        self.store = InMemoryMetricsStore(watermark=NOON)
        self.count(sent=40)
        self.audit_log = InMemoryAuditLog()
        self.cancel_route = CancelRoute(self.store, self.cancellations, self.clock, self.audit_log)
        self.send_route = SendRoute(self.store, self.cancellations, self.clock)

    def count(self, **by_status: int) -> None:
        totals = ChannelTotals(100, 0, 100, {status: {"": number} for status, number in by_status.items()})
        self.store.sends["s"] = SendTotals(
            send_id="s",
            club_id=7,
            type="news",
            requested_at=NOON,
            chunk_count=1,
            chunks=1,
            channels={"push": totals},
            watermark=NOON,
        )

    def cancel(self, send_id: str = "s", *, clubs: Clubs = OWN, content: str | None = None) -> Any:
        return self.cancel_route.answer(send_id, {}, clubs, content, "k1")

    def refusal(self, send_id: str = "s", **request: Any) -> tuple[int, str]:
        with pytest.raises(Problem) as raised:
            self.cancel(send_id, **request)
        return raised.value.status, raised.value.detail


def test_a_send_on_its_way_is_cancelled() -> None:
    api = Api()
    assert api.cancel() == {
        "send_id": "s",
        "status": "cancelling",
        "requested_at": "2023-11-14T22:13:20Z",
        "published_before": 40,
        "links": {"self": "/v1/sends/s"},
    }
    assert SendKey(7, "s") in api.cancellations.recorded


@pytest.mark.guarantee("cancelling.repeated_request_has_the_same_response")
def test_a_repeated_request_has_the_same_response() -> None:
    """A repeated cancellation returns the first response, even after the send has ended."""
    api = Api()
    first = api.cancel()
    api.clock.advance(60)
    api.count(sent=41)
    assert api.cancel(content="{}") == first
    api.count(sent=41, cancelled=59)
    assert api.cancel() == first


@pytest.mark.guarantee("cancelling.published_meanwhile_are_reported")
def test_notifications_published_since_the_request_are_reported() -> None:
    api = Api()
    assert api.send_route.answer("s", {}, OWN)["cancellation"] is None
    api.cancel()
    api.count(sent=20, delivered=25, bounced=2, cancelled=53)
    body = api.send_route.answer("s", {}, OWN)
    assert body["cancellation"] == {
        "requested_at": "2023-11-14T22:13:20Z",
        "published_before": 40,
        "published_since": 7,
    }
    assert (body["totals"]["cancelled"], body["complete"], body["conservation"]["ok"]) == (53, True, True)


@pytest.mark.kills(guard="cancellations.ended_send")
def test_a_send_that_has_ended_is_not_cancelled() -> None:
    api = Api()
    api.count(sent=90, suppressed=10)
    assert api.refusal() == (409, "The send has ended: there is nothing to cancel.")
    assert api.cancellations.recorded == {}


def test_unknown_and_other_tenants_sends_are_not_found() -> None:
    api = Api()
    assert api.refusal("unknown") == api.refusal(clubs=Clubs(frozenset({8})))
    assert api.refusal("unknown")[0] == 404
    assert api.cancellations.recorded == {}


@pytest.mark.parametrize("content", ["[]", '{"reason": "x"}', "{", "null"])
def test_a_request_with_content_is_refused(content: str) -> None:
    api = Api()
    assert api.refusal(content=content)[0] == 400
    assert api.cancellations.recorded == {}


def test_a_request_is_retried_while_the_store_is_down() -> None:
    api = Api()
    api.cancellations.failing = Retry("DynamoDB does not answer")
    with pytest.raises(Retry):
        api.cancel()


@pytest.mark.kills(guard="audit.cancelled_send")
def test_a_cancellation_is_in_the_audit_log_once() -> None:
    """A repeated or refused request is no action."""
    api = Api()
    api.cancel()
    api.cancel()
    api.refusal("unknown")
    (entry,) = api.audit_log.entries
    assert (entry.principal, entry.action, entry.subject, entry.club_id, entry.result) == (
        "k1",
        "send.cancelled",
        "s",
        7,
        "ok",
    )


def test_a_send_is_cancelled_while_the_audit_log_is_down() -> None:
    api = Api()
    api.audit_log.failing = Retry("DynamoDB is away")
    assert api.cancel()["status"] == "cancelling"
