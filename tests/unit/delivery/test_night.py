"""Who may be notified and is asleep by the time their message can be delivered gets it when their quiet hours end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.delivery.night import LOOK_AGAIN_AFTER_S
from masscomm.channels.provider import Transient
from masscomm.domain.ids import released_id
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import Device, User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, delivery, results_of
from tests.support.harness.delivery import Delivery, by_email

MINUTE_MS = 60_000
DAY_MS = 86_400_000
# NOW is 17:13:20 in New York and 14:13:20 in Los Angeles.
NIGHT = {"start": "18:00", "end": "07:00"}
NEW_YORK_6PM, NEW_YORK_7, LOS_ANGELES_7 = (
    round(datetime(2023, 11, day, hour, tzinfo=UTC).timestamp() * 1000) for day, hour in ((14, 23), (15, 12), (15, 15))
)
RULE = "quiet_hours 18:00-07:00 America/New_York until 2023-11-15T12:00:00Z"
LONG_MS = round(LOOK_AGAIN_AFTER_S * 1000)
HELD, SENT, DELAYED, EXPIRED = ("held", None), ("sent", None), ("sending", None), ("expired", "expired")


class Evening(Delivery):
    """Users 1 to 3 want everything at any time; a provider that takes nothing until `open_ms`."""

    open_ms = 0

    def __init__(self) -> None:
        super().__init__()
        self.push.fail = lambda _: Transient("busy") if self.clock.now_ms() < self.open_ms else None

    def sleeper(self, *user_ids: int, zone: str = "America/New_York", **user_settings: Any) -> None:
        usual: dict[str, Any] = {"quiet_hours": NIGHT, "version": 4}
        for user_id in user_ids:
            self.put_user(user_id, time_zone=zone)
            self.directory.put(UserSettings(user_id=user_id, **usual | user_settings))

    def at(self, moment_ms: int) -> None:
        self.clock.advance((moment_ms - self.clock.now_ms()) / 1000)

    def parts(self) -> list[DeliveryRequested]:
        """What waits, in the order of when it goes on."""
        items = sorted(self.delay_store.items.values(), key=lambda item: (item.due_ms, item.id))
        return [self.delayed_delivery(item) for item in items]

    def dues(self) -> list[tuple[int, str]]:
        return sorted((item.due_ms, item.delay_reason) for item in self.delay_store.items.values())


@pytest.mark.guarantee("quiet_hours.late_message_is_rechecked")
def test_delayed_push_is_held_during_quiet_hours() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.open_ms = NEW_YORK_6PM + MINUTE_MS
    assert evening.deliver(delivery([1, 2])) == []
    while evening.clock.now_ms() < evening.open_ms:
        assert [why for _, why in evening.dues()] in (["back_off"], ["back_off", "quiet_hours"], ["quiet_hours"])
        assert evening.release() == []
    assert evening.published_arns() == ["arn-2"]
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]
    assert evening.release() == []
    assert evening.published_arns() == ["arn-1", "arn-2"]
    assert evening.delay_store.items == {}
    said = [(who, what) for outcome in evening.outcomes() for (who, _), what in results_of([outcome]).items()]
    assert [what for who, what in said if who == 1] == [DELAYED, HELD, SENT]
    assert [what for who, what in said if who == 2] == [DELAYED, SENT]
    (result,) = (result for outcome in evening.outcomes() for result in outcome.results if result.status == "held")
    assert (result.layer, result.rule, result.settings_version) == ("user", RULE, 4)


def test_push_that_arrives_late_is_held_during_quiet_hours() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1, 2], timestamp=NEW_YORK_6PM - LONG_MS, built_at=NEW_YORK_6PM - 5)) == []
    assert evening.published_arns() == ["arn-2"]
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]


def test_recently_checked_record_costs_no_look_up() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    lately = NEW_YORK_6PM - LONG_MS + 1
    assert evening.deliver(delivery([1, 2], timestamp=lately, built_at=lately)) == []
    assert evening.published_arns() == ["arn-1", "arn-2"]
    assert evening.directory.calls["users"] == 0


def test_record_without_quiet_hours_costs_no_look_up() -> None:
    evening = Evening()
    evening.sleeper(1, quiet_hours=None)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1, 2])) == []
    assert evening.published_arns() == ["arn-1", "arn-2"]
    assert evening.directory.calls["users"] == 0


@pytest.mark.parametrize(("category", "topic"), [("one_time_password", topics.DELIVERY), ("news", "delivery.critical")])
def test_mandatory_or_critical_push_ignores_quiet_hours(category: str, topic: str) -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.run(evening.use_case, evening.encoded(delivery([1], type=category), topic)) == []
    assert evening.published_arns() == ["arn-1"]


def test_an_e_mail_is_held_with_its_address() -> None:
    evening = Evening()
    evening.sleeper(1, 3)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(by_email([1, 2, 3])) == []
    assert [sent.recipient for sent in evening.email.sent] == ["user2@example.com"]
    assert evening.release() == []
    assert sorted(sent.recipient for sent in evening.email.sent) == [f"user{n}@example.com" for n in (1, 2, 3)]


def test_each_end_of_quiet_hours_has_its_own_stable_record() -> None:
    evening = Evening()
    evening.sleeper(1, 2)
    evening.sleeper(3, zone="America/Los_Angeles", quiet_hours={"start": "14:00", "end": "07:00"})
    evening.at(NEW_YORK_6PM)
    record = delivery([1, 2, 3])
    assert evening.deliver(record) == []
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours"), (LOS_ANGELES_7, "quiet_hours")]
    assert [part.user_ids for part in evening.parts()] == [[1, 2], [3]]
    assert [(part.waits, part.parent_id) for part in evening.parts()] == [(1, record.record_id)] * 2
    assert [part.record_id for part in evening.parts()] == [
        released_id(record.record_id, f"quiet_hours.{until}", 0, 500) for until in (NEW_YORK_7, LOS_ANGELES_7)
    ]
    first = {item.id: item.value for item in evening.delay_store.items.values()}
    evening.sleeper(1, quiet_hours=None)
    evening.at(LOS_ANGELES_7)
    assert evening.deliver(record) == []  # quiet hours have ended by then: the recorded result counts
    assert {item.id: item.value for item in evening.delay_store.items.values()} == first
    assert evening.published_arns() == []
    assert evening.release() == []
    assert evening.deliver(record) == []
    assert evening.release() == []
    assert evening.published_arns() == ["arn-1", "arn-2", "arn-3"]


def test_failed_hold_redelivers_the_record_with_the_same_hold() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    evening.delay_store.failing = Retry("DynamoDB is down")
    assert evening.deliver(delivery([1, 2])) == [0]
    assert evening.outcomes() == []
    evening.delay_store.failing = None
    evening.at(NEW_YORK_7)
    assert evening.deliver(delivery([1, 2])) == []
    assert evening.published_arns() == ["arn-2"]
    assert results_of(evening.outcomes()) == {(1, "push"): HELD, (2, "push"): SENT}
    assert evening.release() == []
    assert evening.published_arns() == ["arn-1", "arn-2"]


def test_failed_quiet_hours_look_up_publishes_nothing() -> None:
    """The record is redelivered and its lease is free for the next environment."""
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)

    def users(_: object) -> dict[int, User]:
        raise Retry("OpenSearch is down")

    broken = Evening()
    broken.sleeper(1)
    broken.directory.users = users  # type: ignore[method-assign, assignment]
    assert evening.deliver(delivery([1]), environment=replace(evening.use_case, directory=broken.directory)) == [0]
    assert evening.published_arns() == []
    before = evening.clock.now_ms()
    assert evening.deliver(delivery([1])) == []
    assert evening.clock.now_ms() == before, "the lease was waited for"
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]


def _opted_out(evening: Evening) -> None:
    evening.sleeper(1, channels={"push": False})


def _without_device(evening: Evening) -> None:
    evening.directory.remove(Device(device_id=1, user_id=1, platform="gcm", token="t"))


@pytest.mark.parametrize(
    ("change", "said"), [(_opted_out, ("suppressed", "opted_out")), (_without_device, ("suppressed", "no_device"))]
)
def test_changed_user_is_suppressed_without_being_held(
    change: Callable[[Evening], None], said: tuple[str, str]
) -> None:
    evening = Evening()
    evening.sleeper(1)
    change(evening)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1])) == []
    assert results_of(evening.outcomes()) == {(1, "push"): said}


def test_message_that_would_expire_while_held_expires_now() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert results_of(evening.outcomes()) == {(1, "push"): EXPIRED}
    assert evening.delay_store.items == {}


def test_held_recipient_ends_within_the_retry_lifetime() -> None:
    evening = Evening()
    evening.sleeper(1, quiet_hours={"start": "07:00", "end": "06:59"})
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1])) == []
    while evening.delay_store.items:
        evening.at(evening.dues()[-1][0] + 2 * MINUTE_MS)  # the scheduler comes too late for the one minute
        assert evening.release() == []
        assert evening.clock.now_ms() - NOW < 4 * DAY_MS
    assert results_of(evening.outcomes()[-1:]) == {(1, "push"): EXPIRED}
    assert evening.published_arns() == []


def test_second_device_is_reached_after_quiet_hours() -> None:
    """The user has one outcome, though one device got the message before quiet hours."""
    evening = Evening()
    evening.sleeper(1)
    evening.put_device(11, 1)
    evening.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    evening.at(NEW_YORK_6PM - 1_000)
    assert evening.deliver(delivery([1])) == []
    evening.push.fail = lambda _: None
    assert evening.release() == []
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]
    assert evening.published_arns() == ["arn-1"]
    assert evening.release() == []
    assert evening.published_arns() == ["arn-1", "arn-11"]
    (sent,) = (outcome for outcome in evening.outcomes() if outcome.results[0].status == "sent")
    assert len(sent.provider_message_ids[0]) == 2


def test_user_with_one_reached_device_is_sent_if_rest_expires() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.put_device(11, 1)
    evening.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    evening.at(NEW_YORK_6PM - 1_000)
    assert evening.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert evening.release() == []
    assert results_of(evening.outcomes()[-1:]) == {(1, "push"): SENT}
    assert evening.delay_store.items == {}
