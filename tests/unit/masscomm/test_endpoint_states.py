"""The state of an endpoint follows from the attempts of its messages."""

from dataclasses import replace
from typing import Any

import pytest

from masscomm.channels.guarded_http import NoAnswer
from masscomm.channels.webhook_requests import attempt_of, signed_headers
from masscomm.domain.time_limits import (
    WEBHOOK_DISABLED_AFTER_S,
    WEBHOOK_FAILING_DELIVERY_S,
    WEBHOOK_RETRY_AFTER_LIMIT_S,
    WEBHOOK_RETRY_DELAYS_S,
    WEBHOOK_SECRET_OVERLAP_S,
)
from masscomm.domain.webhook_signatures import secret_of, sign
from masscomm.domain.webhooks import Attempt, Endpoint, retry_after_s, retry_delay_ms
from masscomm.observability import logs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import PrincipalAudit
from masscomm.stores.webhook_endpoints.results import EndpointResults
from tests.support.harness.webhooks import KEY, Webhooks, answer

HOUR_S = 3_600


class Setting:
    """An endpoint of club 7, and the results of attempts."""

    def __init__(self) -> None:
        self.webhooks = Webhooks()
        self.clock, self.audit_log = self.webhooks.clock, InMemoryAuditLog()
        audit = PrincipalAudit(
            audit_log=self.audit_log, clock=self.clock, logger=logs.logger("test"), principal="webhook_sender"
        )
        self.announced: list[Endpoint] = []
        self.results = EndpointResults(endpoints=self.webhooks.endpoints, audit=audit, announce=self.announced.append)

    def attempt(self, status: int | None, *, tried_for_s: float = 0.0) -> None:
        """Record an attempt of a message that has been tried for a time."""
        now_ms = self.clock.now_ms()
        attempt = Attempt(at_ms=now_ms, duration_ms=1, status=status)
        self.results.record(self.webhooks.stored(), attempt, tried_since_ms=now_ms - round(tried_for_s * 1000))


@pytest.fixture
def setting() -> Setting:
    return Setting()


@pytest.mark.guarantee("webhooks.failing_endpoint_is_disabled")
@pytest.mark.kills(guard="webhooks.gone")
def test_a_gone_endpoint_is_disabled_and_audited(setting: Setting) -> None:
    setting.attempt(410)
    assert not setting.webhooks.stored().enabled
    assert "410" in setting.webhooks.stored().disabled_reason
    assert [each.key for each in setting.announced] == [KEY]
    (entry,) = setting.audit_log.entries
    assert (entry.action, entry.club_id, entry.subject, entry.principal) == (
        "webhook.disabled",
        7,
        KEY.id,
        "webhook_sender",
    )


@pytest.mark.guarantee("webhooks.failing_endpoint_is_disabled")
@pytest.mark.kills(guard="webhooks.failing_for_days")
def test_an_endpoint_that_fails_for_days_is_disabled(setting: Setting) -> None:
    enabled = []
    for number in range(32):
        # The second attempt succeeds, so that the days begin with the third one.
        setting.attempt(200 if number == 1 else 500, tried_for_s=WEBHOOK_FAILING_DELIVERY_S)
        enabled.append(setting.webhooks.stored().enabled)
        setting.clock.advance(6 * HOUR_S)
    failing_s = (enabled.index(False) - 2) * 6 * HOUR_S
    assert failing_s == WEBHOOK_DISABLED_AFTER_S


@pytest.mark.kills(guard="webhooks.failure_after_silence")
def test_a_failure_after_silent_days_disables_nothing(setting: Setting) -> None:
    """The server was down during the only event of last week, and restarts during that of this week."""
    for delay_s in (0, *WEBHOOK_RETRY_DELAYS_S):
        setting.clock.advance(delay_s)
        setting.attempt(503, tried_for_s=delay_s)
    setting.clock.advance(WEBHOOK_DISABLED_AFTER_S)
    setting.attempt(503)
    assert setting.webhooks.stored().failing_since_ms is not None
    setting.attempt(200)
    assert (setting.webhooks.stored().enabled, setting.webhooks.stored().failing_since_ms) == (True, None)


@pytest.mark.kills(guard="webhooks.result_of_the_present_endpoint")
@pytest.mark.parametrize("change", [{"url": "https://new.example.org/"}, {"enabled_at_ms": 1}])
def test_result_of_an_earlier_endpoint_is_ignored(setting: Setting, change: dict[str, Any]) -> None:
    """The tenant moves its endpoint, or enables it again, while the server that it leaves answers 410."""
    before = setting.webhooks.stored()
    setting.webhooks.endpoints.replace(replace(before, **change, revision=2))
    gone = Attempt(at_ms=setting.clock.now_ms(), duration_ms=1, status=410)
    setting.results.record(before, gone, tried_since_ms=gone.at_ms)
    assert (setting.webhooks.stored().enabled, setting.webhooks.stored().failing_since_ms) == (True, None)


@pytest.mark.kills(guard="webhooks.retry_after")
@pytest.mark.parametrize(
    ("header", "expected_s"),
    [("3600", 3_600), ("1", 5), ("99999999", WEBHOOK_RETRY_AFTER_LIMIT_S), ("Tue, 14 Nov 2023 23:13:20 GMT", 3_600)],
)
def test_retry_after_is_honoured_within_bounds(setting: Setting, header: str, expected_s: float) -> None:
    at_ms = setting.clock.now_ms()
    attempt = attempt_of(answer(429, retry_after=header), at_ms=at_ms, duration_ms=1)
    assert expected_s <= retry_delay_ms("seed", 1, attempt) / 1000 <= expected_s * 1.1


@pytest.mark.parametrize("header", [None, "", "soon", "-1", "1.5", "Tue, 99 Nov 2023", "٣"])
def test_a_malformed_retry_after_is_ignored(header: str | None) -> None:
    assert retry_after_s(header, 0) is None


@pytest.mark.parametrize("tries", range(1, len(WEBHOOK_RETRY_DELAYS_S) + 1))
def test_a_delay_is_that_of_the_schedule(tries: int) -> None:
    attempt = attempt_of(NoAnswer("the connection failed"), at_ms=0, duration_ms=1)
    delay_s = WEBHOOK_RETRY_DELAYS_S[tries - 1]
    assert delay_s <= retry_delay_ms("seed", tries, attempt) / 1000 < delay_s * 1.1


@pytest.mark.kills(guard="webhooks.previous_secret")
def test_the_previous_secret_signs_for_a_day(setting: Setting) -> None:
    began_ms = setting.clock.now_ms()
    endpoint = setting.webhooks.stored().rotated(key_id="1", now_ms=began_ms)
    keys = setting.webhooks.keys.now()
    for seconds, versions in ((0, (2, 1)), (WEBHOOK_SECRET_OVERLAP_S - 1, (2, 1)), (WEBHOOK_SECRET_OVERLAP_S, (2,))):
        at_ms = began_ms + seconds * 1000
        headers = signed_headers(keys, endpoint, message_id="evt_1", at_ms=at_ms, body=b"{}")
        secrets = [secret_of(keys, key_id="1", endpoint_id=KEY.id, version=each) for each in versions]
        expected = [sign(each, message_id="evt_1", at_s=at_ms // 1000, body=b"{}") for each in secrets]
        assert headers["webhook-signature"].split(" ") == expected
