"""A delayed message is sent to the user's current address, and not at all if the user has been erased."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S
from masscomm.clock import FixedClock
from masscomm.domain.delays import DELAY_REASON_HEADER
from masscomm.domain.provider_errors import Transient
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from masscomm.domain.users import DirectoryPosition, User, UserSettings
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, delivery, results_of
from tests.support.harness.delivery import Delivery, by_email

SENT = ("sent", None)
BUSY = Transient("Throttling", throttled=True)
USER = User(user_id=2, club_id=7)

type Change = Callable[[Delivery], Any]


def _delayed(change: Change, channel: str) -> Delivery:
    """Delay the messages of users 1 and 2 while the provider is busy, then apply the change."""
    chain = Delivery()
    chain.push.fail = chain.email.fail = lambda _target: BUSY
    assert chain.deliver(by_email([1, 2]) if channel == "email" else delivery([1, 2])) == []
    chain.push.fail = chain.email.fail = lambda _target: None
    change(chain)
    chain.forget()
    return chain


CHANGES: dict[str, tuple[Change, str]] = {
    "erased": (lambda chain: chain.directory.remove(USER), "unknown_user"),
    "moved to another club": (lambda chain: chain.put_user(2, club_id=8), "unknown_user"),
    "opted out": (
        lambda chain: chain.directory.put(UserSettings(user_id=2, channels={"email": False, "push": False})),
        "opted_out",
    ),
}


@pytest.mark.guarantee("delayed.users_are_looked_up_again")
@pytest.mark.kills(guard="delivery.delayed_users")
@pytest.mark.parametrize("channel", ["email", "push"])
@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_changed_user_of_a_delayed_message_is_suppressed(change: Change, reason: str, channel: str) -> None:
    chain = _delayed(change, channel)
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, channel): SENT, (2, channel): ("suppressed", reason)}
    assert chain.published_arns() == (["arn-1"] if channel == "push" else [])
    assert [sent.recipient for sent in chain.email.sent] == (["user1@example.com"] if channel == "email" else [])


def test_a_changed_address_gets_the_delayed_message() -> None:
    chain = _delayed(lambda chain: chain.put_user(2, email="new@example.com"), "email")
    assert chain.release() == []
    assert sorted(sent.recipient for sent in chain.email.sent) == ["new@example.com", "user1@example.com"]


@pytest.mark.parametrize(
    ("address", "reason"), [(None, "no_address"), ("", "no_address"), ("new@example.com", "address_suppressed")]
)
def test_a_delayed_user_without_a_usable_address(address: str | None, reason: str) -> None:
    chain = _delayed(lambda chain: chain.put_user(2, email=address), "email")
    chain.directory.suppress(
        Suppression(
            club_id=7, address="new@example.com", reason=Reason.BOUNCED_PERMANENT, at_ms=NOW, expires_ms=NOW + 10**9
        )
    )
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "email"): SENT, (2, "email"): ("suppressed", reason)}


def test_absence_is_believed_once_the_directory_is_past_the_send() -> None:
    """While the directory is behind, a user missing from it is neither notified nor suppressed."""
    chain = _delayed(lambda chain: chain.directory.remove(USER), "email")
    chain.directory.caught_up = DirectoryPosition(lsn=1, ts_ms=NOW - 1)
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "email"): SENT}
    assert list(chain.delayed_user_ids().values()) == [[2]]
    chain.put_user(2, email="back@example.com")
    chain.directory.caught_up = DirectoryPosition(lsn=2, ts_ms=NOW)
    assert chain.release() == []
    assert [sent.recipient for sent in chain.email.sent] == ["user1@example.com", "back@example.com"]


def test_settings_of_a_user_found_late_count() -> None:
    """The user and an opt-out arrive in the directory between two look-ups: delivery must not miss the opt-out."""
    chain = _delayed(lambda chain: chain.directory.remove(USER), "email")
    confirm = chain.directory.confirm

    def catch_up(ts_ms: int) -> DirectoryPosition:
        chain.put_user(2, email="user2@example.com")
        chain.directory.put(UserSettings(user_id=2, channels={"email": False}))
        return confirm(ts_ms)

    chain.directory.confirm = catch_up  # type: ignore[method-assign]
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(1, "email"): SENT, (2, "email"): ("suppressed", "opted_out")}


def test_user_erased_after_one_device_was_reached_is_sent() -> None:
    chain = Delivery()
    chain.put_device(12, 2)
    chain.push.fail = lambda arn: BUSY if arn == "arn-12" else None
    assert chain.deliver(delivery([2])) == []
    chain.push.fail = lambda _arn: None
    chain.directory.remove(USER)
    chain.forget()
    assert chain.release() == []
    assert chain.published_arns() == ["arn-2"]
    assert results_of(chain.outcomes()) == {(2, "push"): SENT}


def test_a_record_that_a_mapping_gave_up_on_is_looked_up_again() -> None:
    """The scheduler produces an on-failure record unchanged, with the delay reason as a header."""
    chain = Delivery()
    chain.directory.remove(USER)
    place = chain.encoded(by_email([1, 2]), topics.DELIVERY, headers=((DELAY_REASON_HEADER, b"on_failure"),))
    assert chain.run(chain.use_case, place) == []
    assert results_of(chain.outcomes()) == {(1, "email"): SENT, (2, "email"): ("suppressed", "unknown_user")}


@pytest.mark.guarantee("delayed.users_are_looked_up_again")
@pytest.mark.kills(guard="delivery.late_users")
@pytest.mark.parametrize("channel", ["email", "push"])
@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_changed_user_of_a_record_built_long_ago_is_suppressed(change: Change, reason: str, channel: str) -> None:
    """A record may wait in its topic for hours, behind a broadcast that is published at the provider's rate."""
    chain = Delivery()
    change(chain)
    chain.clock.advance(RECHECK_AFTER_S)
    assert chain.deliver(by_email([1, 2]) if channel == "email" else delivery([1, 2])) == []
    assert results_of(chain.outcomes()) == {(1, channel): SENT, (2, channel): ("suppressed", reason)}


def test_changed_address_gets_the_message_built_long_ago() -> None:
    chain = Delivery()
    chain.put_user(2, email="new@example.com")
    chain.clock.advance(RECHECK_AFTER_S)
    assert chain.deliver(by_email([2])) == []
    assert [sent.recipient for sent in chain.email.sent] == ["new@example.com"]
    assert "users" not in chain.directory.calls


def test_the_direct_path_makes_no_more_round_trips() -> None:
    chain = Delivery()
    assert chain.deliver(delivery([1, 2], record_id="a"), by_email([3], record_id="b")) == []
    assert chain.directory.calls == {"user_settings": 1, "devices": 1, "suppressed": 1}


def test_delayed_users_cost_no_more_look_ups_than_direct_ones() -> None:
    chain = _delayed(lambda _chain: None, "push")
    chain.directory.calls.clear()
    assert chain.release() == []
    assert chain.directory.calls == {"users_and_settings": 1, "devices": 1}


def test_a_record_is_late_for_the_whole_invocation_or_not_at_all() -> None:
    """It reaches the limit between two readings of the clock, while its user's endpoint is awaited."""
    chain = Delivery()
    chain.put_device(1, 1, endpoint_arn=None, changed_at_ms=NOW)

    class Ticking(FixedClock):
        def now_ms(self) -> int:
            self.advance(0.001)
            return super().now_ms()

    chain.use_case = replace(chain.use_case, clock=Ticking(NOW))
    built_at = NOW - round(RECHECK_AFTER_S * 1000) + 2
    assert chain.deliver(delivery([1], timestamp=NOW, built_at=built_at)) == []
    assert chain.directory.calls["devices"] > 1, "the endpoint was awaited"
    assert chain.directory.calls["users_and_settings"] == 0
