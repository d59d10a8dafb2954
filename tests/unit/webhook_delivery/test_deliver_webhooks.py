"""Webhooks are delivered at least once, with retries, and no endpoint delays those of other tenants."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from functions.webhook_delivery import deliver_webhooks
from functions.webhook_delivery.deliver_webhooks import CLUB_TURNS, TURNS
from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.domain.time_limits import (
    WEBHOOK_ATTEMPT_S,
    WEBHOOK_CLAIM_S,
    WEBHOOK_DISABLED_AFTER_S,
    WEBHOOK_FAILING_DELIVERY_S,
    WEBHOOK_RESERVE_S,
    WEBHOOK_RETRY_AFTER_LIMIT_S,
    WEBHOOK_RETRY_DELAYS_S,
    WEBHOOK_SECRET_OVERLAP_S,
)
from masscomm.domain.webhook_signatures import secret_of, sign
from masscomm.domain.webhooks import Delivery, DeliveryStatus, retry_after_s
from masscomm.errors import Retry, Stop
from masscomm.stores.webhook_deliveries.port import Due
from masscomm.texts import Text
from tests.support.harness.webhooks import KEY, Webhooks, answer, key, url_of

# The remaining time of an invocation that begins an attempt, and does not wait for a retry.
NO_WAIT_S = WEBHOOK_ATTEMPT_S + WEBHOOK_RESERVE_S + 0.0001


@pytest.fixture
def webhooks() -> Webhooks:
    return Webhooks()


def test_an_accepted_webhook_is_not_repeated(webhooks: Webhooks) -> None:
    delivery = webhooks.deliver()
    assert webhooks.sweep() == {"queues": 1, "errors": 0}
    done = webhooks.now(delivery)
    assert (done.status, done.attempts, done.last[0].status) == (DeliveryStatus.SUCCEEDED, 1, 200)
    assert webhooks.sweep() == {"queues": 0, "errors": 0}
    ((url, headers, body),) = webhooks.http.requests
    assert (url, body) == (url_of(KEY), b"{}")
    assert headers["webhook-id"] == "evt_1"
    secret = secret_of(webhooks.keys.now(), key_id="1", endpoint_id=KEY.id, version=1)
    at_s = webhooks.clock.now_ms() // 1000
    assert headers["webhook-signature"] == sign(secret, message_id="evt_1", at_s=at_s, body=b"{}")


@pytest.mark.guarantee("webhooks.failed_attempt_is_repeated")
@pytest.mark.parametrize(
    "failure",
    [
        answer(500),
        answer(302),
        answer(404),
        NoAnswer("the connection failed"),
        UrlRefused(Text.URL_NOT_PUBLIC.filled()),
    ],
)
def test_a_failed_attempt_is_repeated_on_schedule(webhooks: Webhooks, failure: Answer | Exception) -> None:
    webhooks.http.answers[url_of(KEY)] = [failure]
    delivery = webhooks.deliver()
    for number, delay_s in enumerate(WEBHOOK_RETRY_DELAYS_S, start=1):
        webhooks.use_case.sweep(lambda: NO_WAIT_S)
        pending = webhooks.now(delivery)
        assert (pending.status, pending.attempts) == (DeliveryStatus.PENDING, number)
        assert pending.due_ms is not None
        waited_s = (pending.due_ms - webhooks.clock.now_ms()) / 1000
        assert delay_s <= waited_s < delay_s * 1.1
        webhooks.clock.advance(waited_s - 0.001)
        webhooks.use_case.sweep(lambda: NO_WAIT_S)
        assert webhooks.now(delivery) == pending
        webhooks.clock.advance(0.002)
    webhooks.sweep()
    failed = webhooks.now(delivery)
    assert (failed.status, failed.attempts, failed.due_ms) == (DeliveryStatus.FAILED, 8, None)
    assert {headers["webhook-id"] for _, headers, _ in webhooks.http.requests} == {"evt_1"}
    assert len({headers["webhook-timestamp"] for _, headers, _ in webhooks.http.requests}) == 8
    assert webhooks.sweep()["queues"] == 0
    assert webhooks.stored().enabled


def test_a_sweep_waits_for_the_first_retry(webhooks: Webhooks) -> None:
    webhooks.http.answers[url_of(KEY)] = [answer(503), answer(204)]
    delivery = webhooks.deliver()
    webhooks.sweep()
    assert webhooks.now(delivery).status is DeliveryStatus.SUCCEEDED
    assert webhooks.stored().failing_since_ms is None


@pytest.mark.kills(guard="webhooks.retry_after")
@pytest.mark.parametrize(
    ("header", "expected_s"),
    [("3600", 3_600), ("1", 5), ("99999999", WEBHOOK_RETRY_AFTER_LIMIT_S), ("Tue, 14 Nov 2023 23:13:20 GMT", 3_600)],
)
def test_retry_after_is_honoured_within_bounds(webhooks: Webhooks, header: str, expected_s: float) -> None:
    webhooks.http.answers[url_of(KEY)] = [answer(429, retry_after=header)]
    delivery = webhooks.deliver()
    webhooks.use_case.sweep(lambda: NO_WAIT_S)
    due_ms = webhooks.now(delivery).due_ms
    assert due_ms is not None
    assert expected_s <= (due_ms - webhooks.clock.now_ms()) / 1000 <= expected_s * 1.1


@pytest.mark.parametrize("header", [None, "", "soon", "-1", "1.5", "Tue, 99 Nov 2023", "٣"])
def test_a_malformed_retry_after_is_ignored(header: str | None) -> None:
    assert retry_after_s(header, 0) is None


@pytest.mark.guarantee("webhooks.failing_endpoint_is_disabled")
@pytest.mark.kills(guard="webhooks.gone")
def test_a_gone_endpoint_is_disabled_and_audited(webhooks: Webhooks) -> None:
    webhooks.http.answers[url_of(KEY)] = [answer(410)]
    first, second = webhooks.deliver(), webhooks.deliver("evt_2")
    webhooks.sweep()
    assert not webhooks.stored().enabled
    assert "410" in webhooks.stored().disabled_reason
    (entry,) = webhooks.audit_log.entries
    assert (entry.action, entry.club_id, entry.subject, entry.principal) == (
        "webhook.disabled",
        7,
        KEY.id,
        "webhook_delivery",
    )
    webhooks.clock.advance(60)
    webhooks.sweep()
    assert {webhooks.now(each).status for each in (first, second)} == {DeliveryStatus.FAILED}
    assert len(webhooks.http.requests) == 1


@pytest.mark.kills(guard="webhooks.result_of_the_present_endpoint")
@pytest.mark.parametrize("change", [{"url": "https://new.example.org/"}, {"enabled_at_ms": 1}])
def test_result_of_an_earlier_endpoint_is_ignored(webhooks: Webhooks, change: dict[str, Any]) -> None:
    """The tenant moves its endpoint, or enables it again, while the server that it leaves answers 410."""

    def gone() -> Answer:
        webhooks.endpoints.replace(replace(webhooks.stored(), **change, revision=2))
        return answer(410)

    webhooks.http.answers[url_of(KEY)] = gone
    delivery = webhooks.deliver()
    webhooks.use_case.sweep(lambda: NO_WAIT_S)
    assert webhooks.now(delivery).status is DeliveryStatus.PENDING
    assert (webhooks.stored().enabled, webhooks.stored().failing_since_ms) == (True, None)


@pytest.mark.guarantee("webhooks.deleted_endpoint_receives_nothing")
@pytest.mark.parametrize("change", [{"url": "https://new.example.org/"}, {"enabled": False}])
def test_a_change_applies_to_the_next_delivery(webhooks: Webhooks, change: dict[str, Any]) -> None:
    def changed() -> Answer:
        webhooks.endpoints.replace(replace(webhooks.stored(), **change, revision=2))
        return answer(200)

    webhooks.http.answers[url_of(KEY)] = changed
    for number in range(3):
        webhooks.deliver(f"evt_{number}")
    webhooks.sweep()
    others = 0 if "enabled" in change else 2
    urls = [url for url, _, _ in webhooks.http.requests]
    assert urls == [url_of(KEY)] + ["https://new.example.org/"] * others


@pytest.mark.guarantee("webhooks.failing_endpoint_is_disabled")
@pytest.mark.kills(guard="webhooks.failing_for_days")
def test_an_endpoint_that_fails_for_days_is_disabled(webhooks: Webhooks) -> None:
    webhooks.http.answers[url_of(KEY)] = [answer(500), answer(200), answer(500)]
    step_s, enabled = 6 * 3_600, []
    for number in range(32):
        webhooks.deliver(f"evt_{number}")
        webhooks.use_case.sweep(lambda: NO_WAIT_S)
        enabled.append(webhooks.stored().enabled)
        webhooks.clock.advance(step_s)
    # The second attempt succeeds, so that the days begin with the third one.
    failing_s = (enabled.index(False) - 2) * step_s
    assert WEBHOOK_DISABLED_AFTER_S <= failing_s <= WEBHOOK_DISABLED_AFTER_S + WEBHOOK_FAILING_DELIVERY_S


@pytest.mark.kills(guard="webhooks.failure_after_silence")
def test_a_failure_after_silent_days_disables_nothing(webhooks: Webhooks) -> None:
    """The server was down during the only event of last week, and restarts during that of this week."""
    webhooks.http.answers[url_of(KEY)] = [answer(503)]
    first = webhooks.deliver()
    for delay_s in (0, *WEBHOOK_RETRY_DELAYS_S):
        webhooks.clock.advance(delay_s * 1.1)
        webhooks.use_case.sweep(lambda: NO_WAIT_S)
    assert webhooks.now(first).status is DeliveryStatus.FAILED
    webhooks.clock.advance(WEBHOOK_DISABLED_AFTER_S)
    webhooks.http.answers[url_of(KEY)] = [answer(503), answer(200)]
    second = webhooks.deliver("evt_2")
    webhooks.sweep()
    assert webhooks.now(second).status is DeliveryStatus.SUCCEEDED
    assert (webhooks.stored().enabled, webhooks.stored().failing_since_ms) == (True, None)


def test_a_delivery_sent_again_is_tried_anew(webhooks: Webhooks) -> None:
    """Its attempts of days ago do not disable the endpoint."""
    webhooks.http.answers[url_of(KEY)] = [answer(503)]
    delivery = webhooks.deliver()
    webhooks.use_case.sweep(lambda: NO_WAIT_S)
    webhooks.clock.advance(WEBHOOK_DISABLED_AFTER_S)
    tried = webhooks.now(delivery)
    assert webhooks.deliveries.replace(tried.requested_again(webhooks.clock.now_ms()), tried)
    webhooks.use_case.sweep(lambda: NO_WAIT_S)
    assert (webhooks.now(delivery).attempts, webhooks.stored().enabled) == (2, True)


@pytest.mark.kills(guard="webhooks.previous_secret")
def test_the_previous_secret_signs_for_a_day(webhooks: Webhooks) -> None:
    now_ms = webhooks.clock.now_ms()
    webhooks.endpoints.replace(replace(webhooks.stored().rotated(key_id="1", now_ms=now_ms), revision=2))
    for seconds, versions in ((0, (2, 1)), (WEBHOOK_SECRET_OVERLAP_S - 1, (2, 1)), (1, (2,))):
        webhooks.clock.advance(seconds)
        webhooks.deliver(f"evt_{seconds}")
        webhooks.sweep()
        _, headers, _ = webhooks.http.requests[-1]
        keys = webhooks.keys.now()
        secrets = [secret_of(keys, key_id="1", endpoint_id=KEY.id, version=each) for each in versions]
        at_s = int(headers["webhook-timestamp"])
        expected = [sign(each, message_id=f"evt_{seconds}", at_s=at_s, body=b"{}") for each in secrets]
        assert headers["webhook-signature"].split(" ") == expected


def test_a_crash_after_the_attempt_repeats_it(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery = webhooks.deliver()

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(webhooks.deliveries, "replace", killed)
        patched.setattr(webhooks.deliveries, "release", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            webhooks.sweep()
    assert webhooks.now(delivery).attempts == 0
    # The claim of the killed sweep ends by itself.
    webhooks.sweep()
    assert len(webhooks.http.requests) == 1
    webhooks.clock.advance(WEBHOOK_CLAIM_S)
    webhooks.sweep()
    assert webhooks.now(delivery).status is DeliveryStatus.SUCCEEDED
    assert [headers["webhook-id"] for _, headers, _ in webhooks.http.requests] == ["evt_1", "evt_1"]


@pytest.mark.kills(guard="webhooks.stale_entry")
def test_an_entry_of_an_earlier_time_causes_no_attempt(webhooks: Webhooks) -> None:
    delivery = webhooks.deliver()
    webhooks.sweep()
    webhooks.deliveries.entries.add((KEY, Due(delivery.at_ms, delivery.id)))
    webhooks.deliveries._versions[KEY] = "1"
    seconds = iter([60.0] * 50)  # The time ends although the clock stands still.
    webhooks.use_case.sweep(lambda: next(seconds, 0.0))
    assert len(webhooks.http.requests) == 1
    assert webhooks.deliveries.entries == set()


def test_a_delivery_that_was_requested_again_is_attempted(webhooks: Webhooks) -> None:
    delivery = webhooks.deliver()
    webhooks.sweep()
    done = webhooks.now(delivery)
    assert webhooks.deliveries.replace(done.requested_again(webhooks.clock.now_ms()), done)
    webhooks.sweep()
    assert (webhooks.now(delivery).status, webhooks.now(delivery).attempts) == (DeliveryStatus.SUCCEEDED, 2)


@pytest.mark.guarantee("webhooks.deleted_endpoint_receives_nothing")
@pytest.mark.parametrize("state", ["disabled", "deleted"])
def test_deliveries_of_an_absent_endpoint_fail(webhooks: Webhooks, state: str) -> None:
    delivery = webhooks.deliver()
    if state == "deleted":
        webhooks.endpoints.delete(KEY)
    else:
        webhooks.endpoints.replace(replace(webhooks.stored(), enabled=False, revision=2))
    webhooks.sweep()
    failed = webhooks.now(delivery)
    assert (failed.status, failed.last[0].error) == (DeliveryStatus.FAILED, "the endpoint is disabled or deleted")
    assert webhooks.http.requests == []


@pytest.mark.guarantee("webhooks.slow_endpoint_delays_no_other")
@pytest.mark.kills(guard="webhooks.fair_turns")
def test_slow_endpoints_do_not_delay_another_tenant(webhooks: Webhooks) -> None:
    """More endpoints of one club hang than there are turns; another club's webhook arrives meanwhile."""
    arrived = threading.Event()
    most, lock, running = [0], threading.Lock(), [0]

    def slow() -> Answer:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        assert arrived.wait(30)
        with lock:
            running[0] -= 1
        return answer(200)

    def fast() -> Answer:
        arrived.set()
        return answer(200)

    for number in range(2 * TURNS):
        endpoint = key(6, chr(ord("a") + number % 26) + str(number))
        webhooks.endpoint(endpoint)
        webhooks.http.answers[url_of(endpoint)] = slow
        webhooks.deliver(endpoint=endpoint)
    webhooks.http.answers[url_of(KEY)] = fast
    webhooks.deliver()
    webhooks.sweep()
    assert arrived.is_set()
    assert most[0] <= CLUB_TURNS
    assert all(each.status is DeliveryStatus.SUCCEEDED for each in webhooks.deliveries.stored.values())


@pytest.mark.kills(guard="webhooks.random_order")
def test_no_endpoint_is_last_in_every_sweep(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver_webhooks, "TURNS", 1)
    webhooks.endpoints.delete(KEY)
    for club_id in range(100, 120):
        webhooks.endpoint(key(club_id))
    last = set()
    for number in range(30):
        for club_id in range(100, 120):
            webhooks.deliver(f"evt_{number}", key(club_id))
        webhooks.sweep()
        last.add(webhooks.http.requests[-1][0])
    assert len(last) > 1


def test_failing_endpoints_have_half_of_the_turns(webhooks: Webhooks) -> None:
    arrived = threading.Event()

    def hanging() -> Answer:
        assert arrived.wait(30)
        raise NoAnswer("no answer within 15 s")

    def fast() -> Answer:
        arrived.set()
        return answer(200)

    for club_id in range(100, 100 + 2 * TURNS):
        webhooks.endpoint(key(club_id), failing_since_ms=1_699_999_999_000)
        webhooks.http.answers[url_of(key(club_id))] = hanging
        webhooks.deliver(endpoint=key(club_id))
    late = key(999)
    webhooks.endpoint(late)
    webhooks.http.answers[url_of(late)] = fast
    webhooks.deliver(endpoint=late)
    webhooks.sweep()
    assert webhooks.deliveries.page(late, limit=1).deliveries[0].status is DeliveryStatus.SUCCEEDED


def test_a_failure_ends_the_turn_of_an_endpoint(webhooks: Webhooks) -> None:
    """A dead endpoint with many deliveries costs one attempt a sweep."""
    webhooks.http.answers[url_of(KEY)] = [NoAnswer("no answer within 15 s")]
    for number in range(30):
        webhooks.deliver(f"evt_{number}")
    webhooks.use_case.sweep(lambda: NO_WAIT_S)
    assert len(webhooks.http.requests) == 1


def test_many_deliveries_are_attempted_in_one_sweep(webhooks: Webhooks) -> None:
    for number in range(70):
        webhooks.deliver(f"evt_{number:02d}")
    webhooks.sweep()
    ids = [headers["webhook-id"] for _, headers, _ in webhooks.http.requests]
    assert ids == [f"evt_{number:02d}" for number in range(70)]


def test_no_attempt_begins_without_time(webhooks: Webhooks) -> None:
    webhooks.deliver()
    webhooks.use_case.sweep(lambda: 20)
    assert webhooks.http.requests == []


def test_one_endpoints_error_does_not_end_the_sweep(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    webhooks.endpoint(key(8))
    delivery = webhooks.deliver(endpoint=key(8))
    webhooks.deliver()
    find = webhooks.deliveries.find

    def damaged(endpoint: object, delivery_id: str) -> Delivery | None:
        if endpoint == KEY:
            raise Retry("the item of a webhook delivery is malformed")
        return find(key(8), delivery_id)

    with monkeypatch.context() as patched:
        patched.setattr(webhooks.deliveries, "find", damaged)
        assert webhooks.sweep() == {"queues": 2, "errors": 1}
    assert webhooks.now(delivery).status is DeliveryStatus.SUCCEEDED


def test_missing_keys_stop_the_sweep(webhooks: Webhooks) -> None:
    webhooks.endpoints.replace(replace(webhooks.stored(), key_id="9", revision=2))
    delivery = webhooks.deliver()
    with pytest.raises(Stop, match="signing key 9"):
        webhooks.sweep()
    assert webhooks.now(delivery).attempts == 0


def test_no_secret_is_logged(webhooks: Webhooks, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither secrets and bodies nor paths and queries of URLs, which may contain a credential."""
    webhooks.endpoints.stored[KEY] = replace(webhooks.stored(), url="https://hooks.example.org/hidden?token=hidden")
    webhooks.http.answers[webhooks.stored().url] = [NoAnswer("the connection failed"), answer(410, body="hidden")]
    webhooks.deliver()
    webhooks.sweep()
    logged = capsys.readouterr().out + repr(webhooks.audit_log.entries)
    assert "a webhook was not accepted" in logged
    assert not webhooks.stored().enabled
    secret = secret_of(webhooks.keys.now(), key_id="1", endpoint_id=KEY.id, version=1)
    for hidden in ("hidden", secret, secret.removeprefix("whsec_"), "at least thirty-two"):
        assert hidden not in logged
