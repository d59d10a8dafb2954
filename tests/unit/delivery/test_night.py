"""Who may be notified and is asleep by the time their message can be delivered gets it when their quiet hours end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.delivery.night import LOOK_AGAIN_AFTER_S
from masscomm import topics
from masscomm.channels.provider import Transient
from masscomm.directory import Device, Settings, User
from masscomm.errors import Retry
from masscomm.ids import released_id
from masscomm.records import DeliveryRequested
from tests.support.harness.chain import NOW, delivery, told
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
HELD, SENT, WAITS, EXPIRED = ("held", None), ("sent", None), ("sending", None), ("expired", "expired")


class Evening(Delivery):
    """Users 1 to 3 want everything at any time; a provider that takes nothing until `open_ms`."""

    open_ms = 0

    def __init__(self) -> None:
        super().__init__()
        self.push.fail = lambda _: Transient("busy") if self.clock.now_ms() < self.open_ms else None

    def sleeper(self, *user_ids: int, zone: str = "America/New_York", **settings: Any) -> None:
        usual: dict[str, Any] = {"quiet_hours": NIGHT, "version": 4}
        for user_id in user_ids:
            self.put_user(user_id, time_zone=zone)
            self.directory.put(Settings(user_id=user_id, **usual | settings))

    def at(self, moment_ms: int) -> None:
        self.clock.advance((moment_ms - self.clock.now_ms()) / 1000)

    def parts(self) -> list[DeliveryRequested]:
        """What waits, in the order of when it goes on."""
        items = sorted(self.waiting.items.values(), key=lambda item: (item.due_ms, item.id))
        return [self.in_waiting(item) for item in items]

    def dues(self) -> list[tuple[int, str]]:
        return sorted((item.due_ms, item.why) for item in self.waiting.items.values())


@pytest.mark.guarantee("quiet_hours.late_message_is_rechecked")
def test_what_no_provider_took_all_evening_rings_in_the_morning_for_those_who_are_asleep_by_then() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.open_ms = NEW_YORK_6PM + MINUTE_MS
    assert evening.deliver(delivery([1, 2])) == []
    while evening.clock.now_ms() < evening.open_ms:
        assert [why for _, why in evening.dues()] in (["back_off"], ["back_off", "quiet_hours"], ["quiet_hours"])
        assert evening.release() == []
    assert evening.reached() == ["arn-2"]
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]
    assert evening.release() == []
    assert evening.reached() == ["arn-1", "arn-2"]
    assert evening.waiting.items == {}
    said = [(who, what) for outcome in evening.outcomes() for (who, _), what in told([outcome]).items()]
    assert [what for who, what in said if who == 1] == [WAITS, HELD, SENT]
    assert [what for who, what in said if who == 2] == [WAITS, SENT]
    (result,) = (result for outcome in evening.outcomes() for result in outcome.results if result.status == "held")
    assert (result.layer, result.rule, result.settings_version) == ("user", RULE, 4)


def test_so_does_what_stood_behind_a_broadcast_or_was_written_late() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1, 2], timestamp=NEW_YORK_6PM - LONG_MS, built_at=NEW_YORK_6PM - 5)) == []
    assert evening.reached() == ["arn-2"]
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]


def test_what_was_checked_moments_ago_costs_no_look_up() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    lately = NEW_YORK_6PM - LONG_MS + 1
    assert evening.deliver(delivery([1, 2], timestamp=lately, built_at=lately)) == []
    assert evening.reached() == ["arn-1", "arn-2"]
    assert evening.directory.calls["users"] == 0


def test_nor_does_what_is_for_nobody_with_quiet_hours() -> None:
    evening = Evening()
    evening.sleeper(1, quiet_hours=None)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1, 2])) == []
    assert evening.reached() == ["arn-1", "arn-2"]
    assert evening.directory.calls["users"] == 0


@pytest.mark.parametrize(("category", "topic"), [("one_time_password", topics.DELIVERY), ("news", "delivery.critical")])
def test_what_is_mandatory_or_critical_wakes(category: str, topic: str) -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.run(evening.use_case, evening.encoded(delivery([1], type=category), topic)) == []
    assert evening.reached() == ["arn-1"]


def test_an_e_mail_is_held_with_its_address() -> None:
    evening = Evening()
    evening.sleeper(1, 3)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(by_email([1, 2, 3])) == []
    assert [sent.recipient for sent in evening.email.sent] == ["user2@example.com"]
    assert evening.release() == []
    assert sorted(sent.recipient for sent in evening.email.sent) == [f"user{n}@example.com" for n in (1, 2, 3)]


def test_each_end_is_a_record_of_its_own_that_a_redelivery_derives_again() -> None:
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
    first = {item.id: item.value for item in evening.waiting.items.values()}
    evening.sleeper(1, quiet_hours=None)
    evening.at(LOS_ANGELES_7)
    assert evening.deliver(record) == []  # by then nobody is asleep: the first decision stands
    assert {item.id: item.value for item in evening.waiting.items.values()} == first
    assert evening.reached() == []
    assert evening.release() == []
    assert evening.deliver(record) == []
    assert evening.release() == []
    assert evening.reached() == ["arn-1", "arn-2", "arn-3"]


def test_while_they_cannot_be_left_to_the_scheduler_the_record_comes_again_and_leaves_the_same() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    evening.waiting.failing = Retry("DynamoDB is down")
    assert evening.deliver(delivery([1, 2])) == [0]
    assert evening.outcomes() == []
    evening.waiting.failing = None
    evening.at(NEW_YORK_7)
    assert evening.deliver(delivery([1, 2])) == []
    assert evening.reached() == ["arn-2"]
    assert told(evening.outcomes()) == {(1, "push"): HELD, (2, "push"): SENT}
    assert evening.release() == []
    assert evening.reached() == ["arn-1", "arn-2"]


def test_while_nobody_can_be_looked_up_nobody_is_woken_and_the_record_is_free_for_the_next() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)

    def users(_: object) -> dict[int, User]:
        raise Retry("OpenSearch is down")

    broken = Evening()
    broken.sleeper(1)
    broken.directory.users = users  # type: ignore[method-assign, assignment]
    assert evening.deliver(delivery([1]), environment=replace(evening.use_case, directory=broken.directory)) == [0]
    assert evening.reached() == []
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
def test_nobody_waits_a_night_to_be_told_that_they_get_nothing(
    change: Callable[[Evening], None], said: tuple[str, str]
) -> None:
    evening = Evening()
    evening.sleeper(1)
    change(evening)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1])) == []
    assert told(evening.outcomes()) == {(1, "push"): said}


def test_what_would_have_expired_by_the_morning_has_expired_at_once() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert told(evening.outcomes()) == {(1, "push"): EXPIRED}
    assert evening.waiting.items == {}


def test_nobody_is_held_for_longer_than_anything_is_tried() -> None:
    evening = Evening()
    evening.sleeper(1, quiet_hours={"start": "07:00", "end": "06:59"})
    evening.at(NEW_YORK_6PM)
    assert evening.deliver(delivery([1])) == []
    while evening.waiting.items:
        evening.at(evening.dues()[-1][0] + 2 * MINUTE_MS)  # the scheduler comes too late for the one minute
        assert evening.release() == []
        assert evening.clock.now_ms() - NOW < 4 * DAY_MS
    assert told(evening.outcomes()[-1:]) == {(1, "push"): EXPIRED}
    assert evening.reached() == []


def test_who_has_it_on_one_device_gets_it_on_the_other_in_the_morning_and_is_told_of_once() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.put_device(11, 1)
    evening.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    evening.at(NEW_YORK_6PM - 1_000)
    assert evening.deliver(delivery([1])) == []
    evening.push.fail = lambda _: None
    assert evening.release() == []
    assert evening.dues() == [(NEW_YORK_7, "quiet_hours")]
    assert evening.reached() == ["arn-1"]
    assert evening.release() == []
    assert evening.reached() == ["arn-1", "arn-11"]
    (sent,) = (outcome for outcome in evening.outcomes() if outcome.results[0].status == "sent")
    assert len(sent.provider_message_ids[0]) == 2


def test_who_has_it_on_one_device_was_sent_to_though_the_night_is_longer_than_the_rest_may_wait() -> None:
    evening = Evening()
    evening.sleeper(1)
    evening.put_device(11, 1)
    evening.push.fail = lambda arn: Transient("busy") if arn == "arn-11" else None
    evening.at(NEW_YORK_6PM - 1_000)
    assert evening.deliver(delivery([1], expires_at=NEW_YORK_7)) == []
    assert evening.release() == []
    assert told(evening.outcomes()[-1:]) == {(1, "push"): SENT}
    assert evening.waiting.items == {}
