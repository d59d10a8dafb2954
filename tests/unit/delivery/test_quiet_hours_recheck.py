"""Delivery checks quiet hours again before publishing; recipients in quiet hours are notified when these end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.delivery.quiet_hours_recheck import RECHECK_AFTER_S
from masscomm.domain.ids import released_id
from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, delivery, results_of
from tests.support.harness.delivery import Delivery, by_email

MINUTE_MS = 60_000
DAY_MS = 86_400_000
# The tests' time NOW is 17:13:20 in New York and 14:13:20 in Los Angeles.
DEFAULT_QUIET_HOURS = {"start": "18:00", "end": "07:00"}
NEW_YORK_6PM, NEW_YORK_7, LOS_ANGELES_7 = (
    round(datetime(2023, 11, day, hour, tzinfo=UTC).timestamp() * 1000) for day, hour in ((14, 23), (15, 12), (15, 15))
)
RULE = "quiet_hours 18:00-07:00 America/New_York until 2023-11-15T12:00:00Z"
LONG_MS = round(RECHECK_AFTER_S * 1000)
HELD, SENT, DELAYED, EXPIRED = ("held", None), ("sent", None), ("sending", None), ("expired", "expired")


class QuietHoursDelivery(Delivery):
    """Delivery in which users 1 to 3 have no quiet hours and the provider is busy until `open_ms`."""

    open_ms = 0

    def __init__(self) -> None:
        super().__init__()
        self.push.fail = lambda _: Transient("busy") if self.clock.now_ms() < self.open_ms else None

    def put_quiet_hours(self, *user_ids: int, zone: str = "America/New_York", **user_settings: Any) -> None:
        usual: dict[str, Any] = {"quiet_hours": DEFAULT_QUIET_HOURS, "version": 4}
        for user_id in user_ids:
            self.put_user(user_id, time_zone=zone)
            self.directory.put(UserSettings(user_id=user_id, **usual | user_settings))

    def at(self, moment_ms: int) -> None:
        self.clock.advance((moment_ms - self.clock.now_ms()) / 1000)

    def delayed_parts(self) -> list[DeliveryRequested]:
        """The delayed deliveries, in the order of their due times."""
        items = sorted(self.delay_store.items.values(), key=lambda item: (item.due_ms, item.id))
        return [self.delayed_delivery(item) for item in items]

    def due_times(self) -> list[tuple[int, str]]:
        return sorted((item.due_ms, item.delay_reason) for item in self.delay_store.items.values())


@pytest.mark.guarantee("quiet_hours.late_message_is_rechecked")
def test_delayed_push_is_held_during_quiet_hours() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.open_ms = NEW_YORK_6PM + MINUTE_MS
    assert chain.deliver(delivery([1, 2])) == []
    while chain.clock.now_ms() < chain.open_ms:
        assert [why for _, why in chain.due_times()] in (["back_off"], ["back_off", "quiet_hours"], ["quiet_hours"])
        assert chain.release() == []
    assert chain.published_arns() == ["arn-2"]
    assert chain.due_times() == [(NEW_YORK_7, "quiet_hours")]
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert chain.delay_store.items == {}
    said = [(who, what) for outcome in chain.outcomes() for (who, _), what in results_of([outcome]).items()]
    assert [what for who, what in said if who == 1] == [DELAYED, HELD, SENT]
    assert [what for who, what in said if who == 2] == [DELAYED, SENT]
    (result,) = (result for outcome in chain.outcomes() for result in outcome.results if result.status == "held")
    assert (result.layer, result.rule, result.settings_version) == ("user", RULE, 4)


def test_push_that_arrives_late_is_held_during_quiet_hours() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(delivery([1, 2], timestamp=NEW_YORK_6PM - LONG_MS, built_at=NEW_YORK_6PM - 5)) == []
    assert chain.published_arns() == ["arn-2"]
    assert chain.due_times() == [(NEW_YORK_7, "quiet_hours")]


def test_recently_checked_record_costs_no_look_up() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)
    lately = NEW_YORK_6PM - LONG_MS + 1
    assert chain.deliver(delivery([1, 2], timestamp=lately, built_at=lately)) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert chain.directory.calls["users"] == 0


def test_record_without_quiet_hours_costs_no_look_up() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1, quiet_hours=None)
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert chain.directory.calls["users"] == 0


@pytest.mark.parametrize(("category", "topic"), [("one_time_password", topics.DELIVERY), ("news", "delivery.critical")])
def test_mandatory_or_critical_push_ignores_quiet_hours(category: str, topic: str) -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)
    assert chain.run(chain.use_case, chain.encoded(delivery([1], type=category), topic)) == []
    assert chain.published_arns() == ["arn-1"]


def test_an_e_mail_is_held_with_its_address() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1, 3)
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(by_email([1, 2, 3])) == []
    assert [sent.recipient for sent in chain.email.sent] == ["user2@example.com"]
    assert chain.release() == []
    assert sorted(sent.recipient for sent in chain.email.sent) == [f"user{n}@example.com" for n in (1, 2, 3)]


def test_each_end_of_quiet_hours_has_its_own_stable_record() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1, 2)
    chain.put_quiet_hours(3, zone="America/Los_Angeles", quiet_hours={"start": "14:00", "end": "07:00"})
    chain.at(NEW_YORK_6PM)
    record = delivery([1, 2, 3])
    assert chain.deliver(record) == []
    assert chain.due_times() == [(NEW_YORK_7, "quiet_hours"), (LOS_ANGELES_7, "quiet_hours")]
    assert [part.user_ids for part in chain.delayed_parts()] == [[1, 2], [3]]
    assert [(part.waits, part.parent_id) for part in chain.delayed_parts()] == [(1, record.record_id)] * 2
    assert [part.record_id for part in chain.delayed_parts()] == [
        released_id(record.record_id, f"quiet_hours.{until}", 0, 500) for until in (NEW_YORK_7, LOS_ANGELES_7)
    ]
    first = {item.id: item.value for item in chain.delay_store.items.values()}
    chain.put_quiet_hours(1, quiet_hours=None)
    chain.at(LOS_ANGELES_7)
    assert chain.deliver(record) == []  # quiet hours have ended, but the recorded delay counts
    assert {item.id: item.value for item in chain.delay_store.items.values()} == first
    assert chain.published_arns() == []
    assert chain.release() == []
    assert chain.deliver(record) == []
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]


def test_failed_hold_redelivers_the_record_with_the_same_hold() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)
    chain.delay_store.failing = Retry("DynamoDB is down")
    assert chain.deliver(delivery([1, 2])) == [0]
    assert chain.outcomes() == []
    chain.delay_store.failing = None
    chain.at(NEW_YORK_7)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.published_arns() == ["arn-2"]
    assert results_of(chain.outcomes()) == {(1, "push"): HELD, (2, "push"): SENT}
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-2"]


def test_failed_quiet_hours_look_up_publishes_nothing() -> None:
    """The record is redelivered and its lease is free for the next environment."""
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)

    def users(_: object) -> dict[int, User]:
        raise Retry("OpenSearch is down")

    broken = QuietHoursDelivery()
    broken.put_quiet_hours(1)
    broken.directory.users = users  # type: ignore[method-assign, assignment]
    record = delivery([1], built_at=NEW_YORK_6PM)
    assert chain.deliver(record, environment=replace(chain.use_case, directory=broken.directory)) == [0]
    assert chain.published_arns() == []
    before = chain.clock.now_ms()
    assert chain.deliver(record) == []
    assert chain.clock.now_ms() == before, "the lease was waited for"
    assert chain.due_times() == [(NEW_YORK_7, "quiet_hours")]


def _opted_out(chain: QuietHoursDelivery) -> None:
    chain.put_quiet_hours(1, channels={"push": False})


def _without_device(chain: QuietHoursDelivery) -> None:
    chain.directory.remove(Device(device_id=1, user_id=1, platform="gcm"))


@pytest.mark.parametrize(
    ("change", "said"), [(_opted_out, ("suppressed", "opted_out")), (_without_device, ("suppressed", "no_device"))]
)
def test_changed_user_is_suppressed_without_being_held(
    change: Callable[[QuietHoursDelivery], None], said: tuple[str, str]
) -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    change(chain)
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(delivery([1])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): said}


def test_message_that_would_expire_while_held_expires_now() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert results_of(chain.outcomes()) == {(1, "push"): EXPIRED}
    assert chain.delay_store.items == {}


def test_held_recipient_ends_within_the_retry_lifetime() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1, quiet_hours={"start": "07:00", "end": "06:59"})
    chain.at(NEW_YORK_6PM)
    assert chain.deliver(delivery([1])) == []
    while chain.delay_store.items:
        # the scheduler releases the record two minutes late, when the next quiet hours have begun
        chain.at(chain.due_times()[-1][0] + 2 * MINUTE_MS)
        assert chain.release() == []
        assert chain.clock.now_ms() - NOW < 4 * DAY_MS
    assert results_of(chain.outcomes()[-1:]) == {(1, "push"): EXPIRED}
    assert chain.published_arns() == []


def test_second_device_is_reached_after_quiet_hours() -> None:
    """One device got the message before quiet hours and one after them; the user has a single outcome."""
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.put_device(11, 1)
    chain.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    chain.at(NEW_YORK_6PM - 1_000)
    assert chain.deliver(delivery([1])) == []
    chain.push.fail = lambda _: None
    assert chain.release() == []
    assert chain.due_times() == [(NEW_YORK_7, "quiet_hours")]
    assert chain.published_arns() == ["arn-1"]
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-11"]
    (sent,) = (outcome for outcome in chain.outcomes() if outcome.results[0].status == "sent")
    assert len(sent.provider_message_ids[0]) == 2


def test_user_with_one_reached_device_is_sent_if_rest_expires() -> None:
    chain = QuietHoursDelivery()
    chain.put_quiet_hours(1)
    chain.put_device(11, 1)
    chain.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    chain.at(NEW_YORK_6PM - 1_000)
    assert chain.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert chain.release() == []
    assert results_of(chain.outcomes()[-1:]) == {(1, "push"): SENT}
    assert chain.delay_store.items == {}
