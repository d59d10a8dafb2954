"""Delivery: reachable recipients get each message once; all others are suppressed, delayed or redelivered."""

import asyncio
import email
import email.policy
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.channels.circuit_breaker import UNKNOWN_IN_A_ROW, PushCircuitBreaker
from masscomm.channels.provider_calls import Caller
from masscomm.channels.push import collapse_id_of
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.senders import PushSender
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import notification_id
from masscomm.domain.provider_errors import ApplicationOff, ProviderError, Rejected, TargetGone, Transient
from masscomm.domain.records import ContentColumn
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from masscomm.domain.time_limits import OUTAGE_TIMEOUT_S
from masscomm.domain.users import Device, DirectoryPosition, User, UserSettings
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.observability import metrics
from tests.support.harness.chain import NOW, SEND_ID, delivery, results_of
from tests.support.harness.delivery import Delivery, by_email, gateway

SENT = ("sent", None)
DELAYED = ("sending", None)


def _once(error: ProviderError) -> Callable[[str], ProviderError | None]:
    """Return a fake's hook that fails the first call of each target."""
    seen: set[str] = set()

    def fail(target: str) -> ProviderError | None:
        first = target not in seen
        seen.add(target)
        return error if first else None

    return fail


def test_each_user_with_a_device_is_sent() -> None:
    chain = Delivery()
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]
    (outcome,) = chain.outcomes()
    assert results_of([outcome]) == dict.fromkeys([(1, "push"), (2, "push"), (3, "push")], SENT)
    assert [len(ids) for ids in outcome.provider_message_ids] == [1, 1, 1]
    assert (outcome.step, outcome.parent_id) == ("delivery", delivery([]).record_id)


def test_each_recipient_gets_their_own_text_on_each_platform() -> None:
    chain = Delivery()
    chain.put_device(2, 2, platform="apns")
    content = [
        ContentColumn(field="title", values=["News"], index=[]),
        ContentColumn(field="body", values=["Hello Ada", "Hello Bob"], index=[0, 1]),
    ]
    chain.deliver(delivery([1, 2], content=content, collapse_key="k", expires_at=NOW + 90_000))
    by_arn = {push.endpoint_arn: push for push in chain.push.published}
    android = json.loads(json.loads(by_arn["arn-1"].message)["GCM"])["fcmV1Message"]["message"]
    iphone = json.loads(json.loads(by_arn["arn-2"].message)["APNS"])
    assert android["notification"] == {"title": "News", "body": "Hello Ada"}
    assert android["data"]["notification_id"] == notification_id(SEND_ID, 1, "push")
    assert iphone["aps"]["alert"] == {"title": "News", "body": "Hello Bob"}
    assert iphone["masscomm"]["notification_id"] == notification_id(SEND_ID, 2, "push")
    assert by_arn["arn-1"].attributes == {"AWS.SNS.MOBILE.FCM.TTL": "90"}
    assert by_arn["arn-2"].attributes["AWS.SNS.MOBILE.APNS.COLLAPSE_ID"] == android["android"]["collapse_key"]
    assert android["android"]["collapse_key"] == collapse_id_of(7, "k")


def test_push_to_one_of_several_devices_is_sent() -> None:
    chain = Delivery()
    chain.put_device(11, 1)
    chain.put_device(12, 1, enabled=False)
    chain.push.put("arn-1", enabled=False)
    chain.deliver(delivery([1]))
    (outcome,) = chain.outcomes()
    assert results_of([outcome]) == {(1, "push"): SENT}
    assert chain.published_arns() == ["arn-11"]
    assert "arn-12" not in chain.push.calls


def test_every_device_of_a_user_gets_the_message() -> None:
    chain = Delivery()
    chain.put_device(11, 1)
    chain.deliver(delivery([1]))
    assert chain.published_arns() == ["arn-1", "arn-11"]
    assert [len(ids) for ids in chain.outcomes()[0].provider_message_ids] == [2]


@pytest.mark.kills(guard="delivery.faster_channel")
def test_pushes_of_a_batch_do_not_wait_for_the_rate_of_emails() -> None:
    """The e-mails take the whole invocation, and more."""
    chain = Delivery()
    users = range(1, 21)
    for user_id in users:
        chain.put_device(user_id, user_id)
    slow = {"push": RateLimiter(chain.clock), "email": RateLimiter(chain.clock, per_s=0.1)}
    environment = replace(
        chain.environment(chain.ledger, unrecorded=4), gateway=gateway(chain.clock, rate_limiters=slow)
    )
    emails = replace(by_email(users[:10]), record_id="emails")
    assert chain.deliver(emails, delivery(list(users)), environment=environment) == [0]
    assert len(chain.push.published) == len(users)
    assert 0 < len(chain.email.sent) < 10


@pytest.mark.guarantee("push.unreachable_device_is_retried_alone")
def test_unreachable_device_is_retried_alone() -> None:
    """The user's outcome is emitted once, when the results of both devices are final."""
    chain = Delivery()
    chain.put_device(11, 1)
    chain.push.fail = lambda arn: Transient("Throttled", throttled=True) if arn == "arn-11" else None
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert results_of(chain.outcomes()) == {(1, "push"): DELAYED, (2, "push"): SENT}
    assert [len(ids) for ids in chain.outcomes()[0].provider_message_ids] == [0, 1]
    chain.forget()
    assert chain.release() == []
    assert chain.outcomes() == []
    chain.push.fail = lambda _arn: None
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}
    assert chain.published_arns() == ["arn-1", "arn-11", "arn-2"]
    assert [len(ids) for ids in chain.outcomes()[0].provider_message_ids] == [2]


def test_user_reached_on_one_device_is_sent_despite_opt_out() -> None:
    chain = Delivery()
    chain.put_device(11, 1)
    chain.put_device(12, 2)
    chain.push.fail = lambda arn: ApplicationOff("disabled") if arn in ("arn-11", "arn-12") else None
    assert chain.deliver(delivery([1, 2], expires_at=NOW + 60_000)) == []
    chain.directory.put(UserSettings(user_id=2, categories={"news": False}))
    chain.forget()
    while chain.delay_store.items:
        assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (2, "push"): SENT}
    assert chain.published_arns() == ["arn-1", "arn-2"]


@pytest.mark.kills(guard="devices.unknown_endpoints")
def test_devices_of_a_wrong_region_stay_enabled() -> None:
    chain = Delivery()
    users = range(1, UNKNOWN_IN_A_ROW + 1)
    for user_id in users:
        arn = f"arn:aws:sns:eu-west-1:123456789012:endpoint/GCM/app/{user_id}"
        chain.put_device(user_id, user_id, endpoint_arn=arn)
    push = PushSender(provider=PushCircuitBreaker(chain.push, clock=chain.clock))
    caller = Caller(senders={**chain.senders(), "push": push}, clock=chain.clock)
    assert chain.deliver(delivery(users), environment=replace(chain.use_case, caller=caller)) == []
    assert chain.device_statuses() == []
    assert set(results_of(chain.outcomes()).values()) == {DELAYED}


@pytest.mark.guarantee("devices.disabled_endpoint_is_skipped")
@pytest.mark.parametrize("how", ["known to be disabled", "disabled as we find out"])
def test_user_with_only_disabled_devices_is_suppressed(how: str) -> None:
    chain = Delivery()
    if how == "known to be disabled":
        chain.put_device(1, 1, enabled=False, endpoint_arn=None)
    else:
        chain.push.put("arn-1", enabled=False)
    assert chain.deliver(delivery([1, 2])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): ("suppressed", "device_inactive"), (2, "push"): SENT}


def test_user_without_device_is_suppressed_once_caught_up() -> None:
    chain = Delivery()
    chain.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
    assert chain.deliver(delivery([1, 99])) == []
    # A delay of user 99 does not delay user 1.
    assert chain.published_arns() == ["arn-1"]
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (99, "push"): DELAYED}
    chain.forget()
    chain.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    chain.put_user(99)
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1"]
    assert results_of(chain.outcomes()) == {(99, "push"): ("suppressed", "no_device")}


class Registrar(InMemoryDirectory):
    """A directory whose device gets its endpoint `after_s` seconds after the start."""

    def __init__(self, clock: FixedClock, after_s: float) -> None:
        super().__init__()
        self._clock, self._ready = clock, clock.monotonic() + after_s

    def devices(self, user_ids: Any) -> dict[int, list[Device]]:
        if self._clock.monotonic() >= self._ready:
            self.put(Device(device_id=9, user_id=9, platform="gcm", endpoint_arn="arn-9"))
        return super().devices(user_ids)


@pytest.mark.parametrize(("after_s", "waits"), [(3.0, False), (25.0, True)])
def test_unregistered_device_delays_no_other_recipient(after_s: float, waits: bool) -> None:
    chain = Delivery()
    directory = Registrar(chain.clock, after_s)
    directory.put(Device(device_id=9, user_id=9, platform="gcm", changed_at_ms=NOW))
    directory.put(Device(device_id=1, user_id=1, platform="gcm", endpoint_arn="arn-1"))
    directory.put(User(user_id=9, club_id=7))
    chain.push.put("arn-9")
    order: list[float] = []
    chain.push.fail = lambda _arn: order.append(chain.clock.monotonic())
    use_case = chain.environment(chain.ledger, directory=directory)
    assert chain.run(use_case, chain.encoded(delivery([9, 1]), topics.DELIVERY)) == []
    assert order[0] == NOW / 1000
    assert chain.published_arns() == (["arn-1"] if waits else ["arn-1", "arn-9"])
    assert chain.clock.monotonic() - NOW / 1000 <= 11
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (9, "push"): DELAYED if waits else SENT}
    assert chain.release(environment=use_case) == []
    assert chain.published_arns() == ["arn-1", "arn-9"]


@pytest.mark.parametrize("error", [Transient("InternalError"), Transient("Throttled", throttled=True)])
def test_transient_error_is_retried_and_sent(error: Transient) -> None:
    chain = Delivery()
    chain.push.fail = _once(error)
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]
    assert chain.clock.now_ms() > NOW
    assert set(results_of(chain.outcomes()).values()) == {SENT}


@pytest.mark.guarantee("provider_down.only_affected_recipients_wait")
@pytest.mark.parametrize("error", [Transient("InternalError"), Transient("Throttled", throttled=True)])
def test_lasting_error_delays_only_the_affected_recipients(error: Transient) -> None:
    chain = Delivery()
    chain.push.fail = lambda arn: error if arn == "arn-2" else None
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (2, "push"): DELAYED, (3, "push"): SENT}
    assert chain.clock.now_ms() - NOW <= (OUTAGE_TIMEOUT_S + 2) * 1000
    chain.push.fail = lambda _arn: None
    chain.forget()
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]
    assert results_of(chain.outcomes()) == {(2, "push"): SENT}


def test_lost_outcome_repeats_no_publish() -> None:
    chain = Delivery()
    chain.producer.fail = lambda _topic, _value: Retry("no leader")
    assert chain.deliver(delivery([1, 2])) == [0]
    chain.producer.fail = lambda _topic, _value: None
    chain.clock.advance(30)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert set(results_of(chain.outcomes()).values()) == {SENT}


def test_fault_for_one_recipient_publishes_no_push_twice() -> None:
    chain = Delivery()

    def fault(arn: str) -> None:
        if arn == "arn-2":
            raise KeyError("a fault in the code")

    chain.push.fail = fault
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert chain.published_arns() == ["arn-1", "arn-3"]
    assert list(chain.delayed_user_ids().values()) == [[2]]


def test_one_record_that_waits_does_not_hold_up_the_others() -> None:
    chain = Delivery()
    chain.push.fail = lambda arn: Transient("down") if arn == "arn-1" else None
    assert chain.deliver(delivery([1], record_id="a"), delivery([2], record_id="b")) == []
    assert chain.published_arns() == ["arn-2"]


@pytest.mark.kills(guard="masking.provider_errors")
@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (Rejected("InvalidParameter: no"), "provider_rejected", "InvalidParameter"),
        (Rejected("too large", too_large=True), "too_large", "other"),
    ],
)
def test_permanent_provider_error_fails_the_recipient(error: ProviderError, reason: str, code: str) -> None:
    chain = Delivery()
    chain.push.fail = lambda arn: error if arn == "arn-1" else None
    assert chain.deliver(delivery([1, 2])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): ("failed", reason), (2, "push"): SENT}
    assert chain.outcomes()[0].results[0].rule == code


def test_oversized_payload_fails_without_a_publish() -> None:
    chain = Delivery()
    content = [ContentColumn(field=name, values=["x" * 4096], index=[]) for name in ("title", "body")]
    chain.deliver(delivery([1], content=content))
    assert results_of(chain.outcomes()) == {(1, "push"): ("failed", "too_large")}
    assert chain.push.calls == []


def test_an_opt_out_that_is_newer_than_the_decision_is_honoured() -> None:
    chain = Delivery()
    chain.directory.put(UserSettings(user_id=2, channels={"push": False}))
    chain.deliver(delivery([1, 2]))
    assert chain.published_arns() == ["arn-1"]
    assert results_of(chain.outcomes())[2, "push"] == ("suppressed", "opted_out")


@pytest.mark.guarantee("suppression.bounce_or_complaint_stops_sends")
@pytest.mark.parametrize("type_", ["news", "one_time_password"])
def test_suppressed_address_gets_not_even_mandatory_messages(type_: str) -> None:
    chain = Delivery()
    end = chain.clock.now_ms() + 1
    for address, club_id, ends in (
        ("User2@Example.com", 7, end),
        # Suppressed only for user 1's address in another club.
        ("user1@example.com", 8, end),
        ("user3@example.com", 7, end - 1),
    ):
        suppression = Suppression(club_id=club_id, address=address, reason=Reason.COMPLAINED, at_ms=0, expires_ms=ends)
        chain.directory.suppress(suppression)
    assert chain.deliver(by_email([1, 2, 3], type=type_)) == []
    assert sorted(sent.recipient for sent in chain.email.sent) == ["user1@example.com", "user3@example.com"]
    assert results_of(chain.outcomes())[2, "email"] == ("suppressed", "address_suppressed")


def test_mandatory_message_is_delivered_despite_opt_out() -> None:
    chain = Delivery()
    chain.directory.put(UserSettings(user_id=2, channels={"push": False}))
    chain.deliver(delivery([2], type="one_time_password"))
    assert chain.published_arns() == ["arn-2"]


def test_expired_message_is_not_published() -> None:
    chain = Delivery()
    assert chain.deliver(delivery([1, 2], expires_at=NOW)) == []
    assert chain.push.calls == []
    assert set(results_of(chain.outcomes()).values()) == {("expired", "expired")}


@pytest.mark.parametrize("channel", ["push", "email"])
def test_message_that_expires_during_retries_is_expired(channel: str) -> None:
    chain = Delivery()
    chain.push.fail = chain.email.fail = lambda _target: Transient("down")
    record = delivery([1], expires_at=NOW + 1000) if channel == "push" else by_email([1], expires_at=NOW + 1000)
    assert chain.deliver(record) == []
    assert results_of(chain.outcomes()) == {(1, channel): ("expired", "expired")}


@pytest.mark.kills(guard="delivery.expires_at")
def test_no_call_begins_after_a_message_has_expired() -> None:
    chain = Delivery()
    began: list[int] = []

    def down(_arn: str) -> ProviderError:
        began.append(chain.clock.now_ms())
        return Transient("down")

    chain.push.fail = down
    chain.deliver(delivery([1], expires_at=NOW + 1000))
    assert NOW <= max(began) < NOW + 1000


def test_expiry_during_retries_keeps_the_absence_of_a_device() -> None:
    """A user without a device is suppressed, even if the provider's retries last until the send expires."""
    chain = Delivery()
    chain.push.fail = lambda *_: Transient("unavailable")
    chain.deliver(delivery([1, 9], expires_at=NOW + 1000))
    results = results_of(chain.outcomes())
    assert results == {(1, "push"): ("expired", "expired"), (9, "push"): ("suppressed", "no_device")}


def test_no_call_begins_that_could_outlive_the_invocation() -> None:
    chain = Delivery()
    began: list[float] = []

    def slow(_arn: str) -> None:
        began.append(chain.clock.monotonic() - NOW / 1000)
        chain.clock.advance(9)

    chain.push.fail = slow
    for user_id in range(10, 40):
        chain.put_device(user_id, user_id)
    assert chain.deliver(delivery(range(10, 40))) == [0]
    # Of the 60 s, 8 s are reserved for the provider call and 2 s for flushing the producer.
    assert began
    assert max(began) <= 50
    published = chain.published_arns()
    chain.push.fail = lambda _arn: None
    assert chain.deliver(delivery(range(10, 40))) == []
    assert len(published) < 30
    assert chain.published_arns() == sorted(f"arn-{user_id}" for user_id in range(10, 40))


@pytest.mark.guarantee("opensearch_down.all_records_are_redelivered")
@pytest.mark.parametrize("failing", [Retry("OpenSearch is down"), ZeroDivisionError()])
def test_failed_look_up_redelivers_all_and_publishes_nothing(failing: Exception) -> None:
    chain = Delivery()
    chain.directory.failing = failing
    assert chain.deliver(delivery([1]), delivery([2])) == [0, 1]
    assert chain.push.calls == []


def test_email_has_its_recipient_and_unsubscribe_headers() -> None:
    chain = Delivery()
    assert chain.deliver(by_email([1])) == []
    (sent,) = chain.email.sent
    message = email.message_from_bytes(sent.message, policy=email.policy.default)
    assert sent.recipient == message["To"] == "user1@example.com"
    assert message["Subject"] == "News"
    assert message["From"] == "no-reply@masscomm.example"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = message["List-Unsubscribe"].partition(">")[0].removeprefix("<")
    address, _, token = link.rpartition("/")
    assert address == "https://unsubscribe.example/u"
    assert chain.links.subscription(token) == (1, 7, "news")
    assert results_of(chain.outcomes()) == {(1, "email"): SENT}


@pytest.mark.kills(guard="unsubscribe.mandatory_category")
def test_mandatory_email_has_no_unsubscribe_header() -> None:
    chain = Delivery()
    assert chain.deliver(by_email([1], type="security_alert")) == []
    (sent,) = chain.email.sent
    assert b"list-unsubscribe" not in sent.message.lower()


def test_email_waits_while_its_link_cannot_be_signed() -> None:
    chain = Delivery()

    def down() -> str:
        raise Retry("no secret")

    chain.links.keys.read = down
    assert chain.deliver(by_email([1])) == []
    assert chain.email.sent == []
    assert len(chain.delay_store.items) == 1


def test_a_message_without_html_has_no_html() -> None:
    chain = Delivery()
    content = by_email([]).content
    chain.deliver(by_email([1], content=[*content[:2], ContentColumn(field="html", values=[""], index=[])]))
    message = email.message_from_bytes(chain.email.sent[0].message, policy=email.policy.default)
    assert message.get_content_type() == "text/plain"


@pytest.mark.guarantee("provider_answer.invalid_address")
@pytest.mark.kills(guard="addresses.fault_is_named")
@pytest.mark.kills(guard="metrics.calls_without_invalid_addresses")
@pytest.mark.parametrize(
    "address",
    [
        *("", "@", "no address", "a@b\r\nBcc: eve@example.com", "ann@b.example, bob@b.example", "é@b.example"),
        *(f"a@ü{'x' * 63}.example", f"{'x' * 320}@b.example", "a@b..example", "a\u200bb@c.example"),
    ],
)
def test_malformed_address_fails_its_recipient_alone(address: str) -> None:
    chain = Delivery()
    record = by_email([1, 2, 3], addresses=["user1@example.com", address, "user3@example.com"])
    metrics.taken()
    assert chain.deliver(record) == []
    assert metrics.taken()[0]["EmailCalls"] == 2
    assert sorted(chain.email.calls) == ["user1@example.com", "user3@example.com"]
    assert results_of(chain.outcomes()) == {
        (1, "email"): SENT,
        (2, "email"): ("failed", "invalid_address"),
        (3, "email"): SENT,
    }


@pytest.mark.parametrize(
    "values",
    [
        {"channel": "pigeon"},
        {"positions": [0]},
        {"channel": "email"},
        {"content": []},
        {"content": [ContentColumn(field="title", values=["x"], index=[])]},
        {"content": [ContentColumn(field=name, values=[], index=[]) for name in ("title", "body")]},
        {"content": [ContentColumn(field=name, values=["x"], index=[0]) for name in ("title", "body")]},
        {"content": [ContentColumn(field=name, values=["x"], index=[0, 1]) for name in ("title", "body")]},
        {"content": [ContentColumn(field=name, values=["x"], index=[0, -1]) for name in ("title", "body")]},
    ],
)
def test_inconsistent_delivery_record_is_dead_lettered(values: dict[str, Any]) -> None:
    chain = Delivery()
    assert chain.deliver(delivery([1, 2], **values), delivery([3])) == []
    assert [headers["masscomm.reason"] for headers in chain.dead_letters()] == ["invalid"]
    assert chain.published_arns() == ["arn-3"]


def test_dead_letter_outcome_keeps_the_sent_recipients() -> None:
    chain = Delivery()
    refusals: list[Exception | None] = [DeadLetter("too_large", "the outcome is too large")]
    chain.producer.fail = lambda _topic, _value: refusals.pop() if refusals else None
    assert chain.deliver(delivery([1, 99])) == []
    assert [headers["masscomm.reason"] for headers in chain.dead_letters()] == ["too_large"]
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (99, "push"): ("suppressed", "no_device")}


@pytest.mark.parametrize("size", [1, 50])
def test_look_ups_do_not_grow_with_recipients(size: int) -> None:
    chain = Delivery()
    users = range(100, 100 + 4 * size)
    for user_id in users:
        chain.put_device(user_id, user_id)
    parts = [delivery(users[place * size : (place + 1) * size], record_id=str(place)) for place in range(4)]
    assert chain.deliver(*parts) == []
    assert chain.directory.calls == {"user_settings": 1, "devices": 1}


def test_many_users_are_looked_up_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Delivery()
    chain.use_case.portion_size.recipients = 1_200
    users = range(100, 1_300)
    for user_id in users:
        chain.put_device(user_id, user_id)
    parts = Barrier(3, timeout=10)
    devices = chain.directory.devices

    def with_the_other_parts(user_ids: Sequence[int]) -> dict[int, list[Device]]:
        parts.wait()
        return devices(user_ids)

    monkeypatch.setattr(chain.directory, "devices", with_the_other_parts)
    records = [delivery(users[start : start + 400], record_id=str(start)) for start in (0, 400, 800)]
    assert chain.deliver(*records) == []
    assert len(chain.published_arns()) == len(users)


def test_later_batches_start_no_thread_and_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Delivery()
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(2) as pool, closing(loop):
        both = Barrier(2, timeout=10)
        list(pool.map(lambda _: both.wait(), range(2)))  # Now the pool has its threads.
        provider_gateway = gateway(chain.clock, run=loop.run_until_complete)
        environment = replace(chain.use_case, pool=pool, gateway=provider_gateway, unrecorded=1)
        made: list[object] = []
        monkeypatch.setattr(Thread, "start", made.append)
        monkeypatch.setattr(asyncio, "new_event_loop", lambda: made.append("a loop"))
        assert chain.deliver(delivery([1, 2, 3]), environment=environment) == []
    assert (len(chain.push.published), made) == (3, [])


FATES = st.sampled_from(
    [
        "sent",
        "no device",
        "disabled",
        "gone",
        "rejected",
        "opted out",
        "busy",
        "two devices",
        "one of two gone",
        "one of two busy",
    ]
)


@given(st.lists(FATES, max_size=12), st.booleans())
def test_each_recipient_has_one_outcome_and_one_message(fates: list[str], outage: bool) -> None:
    chain = Delivery()
    users = range(10, 10 + len(fates))
    errors: dict[str, ProviderError] = {}
    for user_id, fate in zip(users, fates, strict=True):
        arn = f"arn-{user_id}"
        if fate != "no device":
            chain.put_device(user_id, user_id, enabled=fate != "disabled")
        match fate:
            case "gone":
                errors[arn] = TargetGone("EndpointDisabled")
            case "rejected":
                errors[arn] = Rejected("InvalidParameter")
            case "opted out":
                chain.directory.put(UserSettings(user_id=user_id, categories={"news": False}))
            case "busy":
                errors[arn] = Transient("Throttled", throttled=True)
            case "two devices" | "one of two gone" | "one of two busy":
                chain.put_device(1000 + user_id, user_id)
                if fate == "one of two busy":
                    errors[arn] = Transient("Throttled", throttled=True)
                if fate == "one of two gone":
                    errors[arn] = TargetGone("EndpointDisabled")
    busy = {arn for arn, error in errors.items() if isinstance(error, Transient)}
    chain.push.fail = errors.get
    record = delivery(users)
    if outage:
        chain.producer.fail = lambda _topic, _value: Retry("down")
        assert chain.deliver(record) == ([0] if fates else [])
        chain.producer.fail = lambda _topic, _value: None
    chain.forget()
    assert chain.deliver(record) == []
    first = results_of(chain.outcomes())
    waited = {user_id for (user_id, _), what in first.items() if what == DELAYED}
    assert waited == {user_id for user_id in users if f"arn-{user_id}" in busy}
    for arn in busy:
        del errors[arn]
    chain.forget()
    assert chain.release() == []
    after = results_of(chain.outcomes())
    assert {user_id for user_id, _ in after} == waited
    outcomes = first | after
    assert sorted(user_id for user_id, _ in outcomes) == list(users)
    took = chain.published_arns()
    assert len(took) == len(set(took))
    two = {user_id for user_id, fate in zip(users, fates, strict=True) if fate in ("two devices", "one of two busy")}
    assert {f"arn-{user_id}" for user_id in two} | {f"arn-{1000 + user_id}" for user_id in two} <= set(took)
    sent = {"sent", "busy", "two devices", "one of two gone", "one of two busy"}
    assert [outcomes[user_id, "push"] == SENT for user_id in users] == [fate in sent for fate in fates]


@pytest.mark.guarantee("provider_down.application_off_delays_its_own")
def test_disabled_application_delays_its_recipients_at_once() -> None:
    chain = Delivery()
    chain.push.fail = lambda arn: ApplicationOff("PlatformApplicationDisabled") if arn == "arn-2" else None
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert chain.published_arns() == ["arn-1", "arn-3"]
    assert chain.clock.now_ms() == NOW
    chain.push.fail = lambda _arn: None
    chain.forget()
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(2, "push"): SENT}
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]


def test_each_gone_device_has_a_device_status() -> None:
    chain = Delivery()
    chain.put_device(11, 1)
    chain.push.put("arn-11", enabled=False)
    chain.push.put("arn-2", enabled=False)
    assert chain.deliver(delivery([1, 2, 3])) == []
    assert results_of(chain.outcomes())[1, "push"] == SENT
    statuses = chain.device_statuses()
    assert sorted((s.device_id, s.user_id, s.endpoint_arn, s.status) for s in statuses) == [
        (2, 2, "arn-2", "inactive"),
        (11, 1, "arn-11", "inactive"),
    ]
    assert {(s.club_id, s.platform, s.timestamp, s.send_id) for s in statuses} == {(7, "gcm", NOW, SEND_ID)}
    assert len({s.record_id for s in statuses}) == 2


def test_provider_calls_are_counted_by_channel() -> None:
    chain = Delivery()
    chain.push.fail = _once(Transient("Throttled", throttled=True))
    metrics.taken()
    assert chain.deliver(delivery([1, 2, 3]), by_email([1, 2], record_id="another")) == []
    found, _ = metrics.taken()
    counted = {name: found[name] for name in ("PushCalls", "PushThrottles", "EmailCalls", "RecipientsSent")}
    assert counted == {"PushCalls": 6, "PushThrottles": 3, "EmailCalls": 2, "RecipientsSent": 5}
    assert (len(found["PushLatency"]), len(found["EmailLatency"])) == (6, 2)  # type: ignore[arg-type]
    assert not {"PushErrors", "EmailThrottles", "LeaseLosses"} & found.keys()
    chain.push.fail = _once(Transient("InternalError"))
    chain.deliver(delivery([1], record_id="a third"))
    assert metrics.taken()[0]["PushErrors"] == 1


def test_recorded_recipients_count_as_duplicates_refused() -> None:
    chain = Delivery()
    chain.deliver(delivery([1, 2, 3]))
    metrics.taken()
    chain.deliver(delivery([1, 2, 3]))
    found, _ = metrics.taken()
    assert (found["DuplicatesRefused"], "PushCalls" in found) == (3, False)


def test_fault_in_a_provider_call_is_logged_with_record_ids(capsys: pytest.CaptureFixture[str]) -> None:
    chain = Delivery()

    def fault(_arn: str) -> None:
        raise KeyError("a fault")

    chain.push.fail = fault
    chain.deliver(delivery([1], send_id="a send", club_id=3))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = (line for line in lines if "our own code" in line.get("message", ""))
    assert (line["send_id"], line["club_id"], line["position"]) == ("a send", 3, "delivery-0@0")


def test_small_record_is_delivered_before_a_large_one() -> None:
    world = Delivery()
    for user_id in range(4, 12):
        world.put_device(user_id, user_id)
    many = delivery(range(4, 12), record_id="44444444-4444-5444-8444-444444444444")
    assert world.deliver(many, delivery([1])) == []
    assert world.push.published[0].endpoint_arn == "arn-1"
    assert len(world.published_arns()) == 9
