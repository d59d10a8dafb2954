from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from masscomm.domain.sends import SendKey
from masscomm.errors import Retry
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import LogKey, LogRow
from tests.support.harness.control_api import OWN, ControlApi


def test_a_send_on_its_way_is_cancelled() -> None:
    api = ControlApi()
    assert api.cancel() == {
        "send_id": "s",
        "status": "cancelling",
        "requested_at": "2023-11-14T22:13:20Z",
        "published_before": 40,
        "links": {"self": "/v1/sends/s"},
    }
    assert api.register.controls([SendKey(7, "s")])[SendKey(7, "s")].cancelled


@pytest.mark.guarantee("cancelling.repeated_request_has_the_same_response")
def test_a_repeated_request_has_the_same_response() -> None:
    """A repeated cancellation returns the first response, even after the send has ended."""
    api = ControlApi()
    first = api.cancel()
    api.clock.advance(60)
    api.count(sent=41)
    assert api.cancel(content="{}") == first
    api.count(sent=41, cancelled=59)
    assert api.cancel() == first


@pytest.mark.guarantee("cancelling.published_meanwhile_are_reported")
def test_notifications_published_since_the_request_are_reported() -> None:
    api = ControlApi()
    assert api.send_route.answer("s", {}, OWN)["cancellation"] is None
    api.cancel()
    api.count(sent=20, delivered=25, bounced=2, cancelled=53)
    body: Any = api.send_route.answer("s", {}, OWN)
    assert body["cancellation"] == {
        "requested_at": "2023-11-14T22:13:20Z",
        "published_before": 40,
        "published_since": 7,
        "exact": False,
    }
    assert (body["totals"]["cancelled"], body["complete"], body["conservation"]["ok"]) == (53, True, True)


def test_published_since_is_exact_with_the_log_of_recipients() -> None:
    """Of 47 published notifications, 5 were published at the request or later; 2 of the others were counted later."""
    api = ControlApi()
    api.cancel()
    at = datetime.fromtimestamp(api.clock.now_ms() / 1000, UTC)
    times = [at - timedelta(seconds=1)] * 42 + [at] * 5
    api.store.recipients = [
        (user_id, LogRow(LogKey(each, "s", "push"), 7, "news", "sent", "")) for user_id, each in enumerate(times)
    ]
    api.count(sent=47)
    cancellation = api.send_route.answer("s", {}, OWN)["cancellation"]
    assert cancellation is not None
    assert (cancellation["published_since"], cancellation["exact"]) == (7, False)  # The send has not ended.
    api.count(sent=47, cancelled=53)
    cancellation = api.send_route.answer("s", {}, OWN)["cancellation"]
    assert cancellation is not None
    assert (cancellation["published_before"], cancellation["published_since"]) == (42, 5)
    assert cancellation["exact"]


@pytest.mark.kills(guard="cancellations.ended_send")
def test_a_send_that_has_ended_is_not_cancelled() -> None:
    api = ControlApi()
    api.count(sent=90, suppressed=10)
    assert api.refusal() == (409, "The send has ended: there is nothing to cancel.")
    assert api.register.sends == {}


def test_unknown_and_other_tenants_sends_are_not_found() -> None:
    api = ControlApi()
    assert api.refusal("unknown") == api.refusal(clubs=Clubs(frozenset({8})))
    assert api.refusal("unknown")[0] == 404
    assert api.register.sends == {}


@pytest.mark.parametrize("content", ["[]", '{"reason": "x"}', "{", "null"])
def test_a_request_with_content_is_refused(content: str) -> None:
    api = ControlApi()
    assert api.refusal(content=content)[0] == 400
    assert api.register.sends == {}


def test_a_request_is_retried_while_the_store_is_down() -> None:
    api = ControlApi()
    api.register.failing = Retry("DynamoDB does not answer")
    with pytest.raises(Retry):
        api.cancel()


@pytest.mark.kills(guard="audit.controlled_send")
def test_a_cancellation_is_in_the_audit_log_once() -> None:
    """A repeated or refused request is no action."""
    api = ControlApi()
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
    api = ControlApi()
    api.audit_log.failing = Retry("DynamoDB is away")
    assert api.cancel()["status"] == "cancelling"
