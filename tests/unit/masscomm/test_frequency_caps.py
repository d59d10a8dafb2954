"""Frequency caps: their form, the places of users, and the stores of places."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from masscomm.chain.cap_counter import CapCounter
from masscomm.clock import FixedClock
from masscomm.domain.cap_places import Wish, since_ms, take_places
from masscomm.domain.categories import CategoriesError, caps_of, read_categories
from masscomm.domain.frequency_caps import Cap, CapError, fields_of_caps, read_caps
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.frequency_caps.port import FrequencyCaps
from tests.support.contracts.frequency_caps import NOW, FrequencyCapsContract, change
from tests.support.harness.chain import recheck
from tests.support.servers.dynamodb_table import new_table

HOUR_MS = 3_600_000
CHANNELS = ("push", "email")


class TestInMemoryFrequencyCaps(FrequencyCapsContract):
    @pytest.fixture
    def caps(self) -> FrequencyCaps:
        return InMemoryFrequencyCaps()


class TestMotoFrequencyCaps(FrequencyCapsContract):
    @pytest.fixture
    def table(self, moto_dynamodb: Any) -> str:
        return new_table(moto_dynamodb, "frequency_caps")

    @pytest.fixture
    def caps(self, moto_dynamodb: Any, table: str) -> FrequencyCaps:
        return DynamoDbFrequencyCaps(table=table, client=moto_dynamodb)

    def test_places_expire_after_their_time(self, caps: FrequencyCaps, moto_dynamodb: Any, table: str) -> None:
        caps.write([[change(a=NOW)]], NOW)
        [item] = moto_dynamodb.scan(TableName=table)["Items"]
        assert item["expires_at"] == {"N": str(NOW // 1000 + 100)}

    @pytest.mark.parametrize(
        "damage", [{"taken": {"S": "?"}}, {"revision": {"N": "0.5"}}, {"taken": {"M": {"a": {"S": "?"}}}}]
    )
    @pytest.mark.kills(guard="frequency_caps.damaged_item")
    def test_damaged_item_refuses_its_user_alone(
        self, caps: FrequencyCaps, moto_dynamodb: Any, table: str, damage: Mapping[str, Any]
    ) -> None:
        """How many places are taken is unknown: nothing is let through, given back or overwritten."""
        caps.write([[change(a=NOW)]], NOW)
        [item] = moto_dynamodb.scan(TableName=table)["Items"]
        moto_dynamodb.put_item(TableName=table, Item={**item, **damage})
        counter = CapCounter(store=caps, clock=FixedClock(NOW))
        daily = [Cap(limit=1, window="24h"), Cap(limit=1, window="day", by_channel=True)]
        wishes = [Wish(0, 1, CHANNELS, None), Wish(1, 2, CHANNELS, None)]
        counted = counter.take(recheck([1, 2], channels=CHANNELS), daily, wishes, lambda: True)
        assert (counted.refused, counted.uncounted) == ({0: dict.fromkeys(CHANNELS, daily[0]), 1: {}}, [])
        [stored] = [each for each in moto_dynamodb.scan(TableName=table)["Items"] if each["recipient"]["S"] == "7#1"]
        assert stored == {**item, **damage}


@pytest.mark.parametrize(
    "given",
    [
        {"limit": 3, "window": "24h"},
        [{"limit": 0, "window": "24h"}],
        [{"limit": 101, "window": "24h"}],
        [{"limit": True, "window": "24h"}],
        [{"limit": "3", "window": "24h"}],
        [{"limit": 3}],
        [{"window": "24h"}],
        [{"limit": 3, "window": 24}],
        [{"limit": 3, "window": "0h"}],
        [{"limit": 3, "window": "24h "}],
        [{"limit": 3, "window": "24h\n"}],
        [{"limit": 3, "window": "٣h"}],
        [{"limit": 3, "window": "1w"}],
        [{"limit": 3, "window": "31d"}],
        [{"limit": 3, "window": "721h"}],
        [{"limit": 3, "window": "day", "by_channel": "yes"}],
        [{"limit": 3, "window": "day", "group": ""}],
        [{"limit": 3, "window": "day", "group": "a b"}],
        [{"limit": 3, "window": "day", "per": "user"}],
        [{"limit": 3, "window": "24h"}, {"limit": 5, "window": "1d"}],
        [{"limit": 1, "window": f"{hours}h"} for hours in range(1, 6)],
        [3],
    ],
)
def test_invalid_caps_are_refused(given: Any) -> None:
    with pytest.raises(CapError):
        read_caps(given)


def test_valid_caps_are_read_and_written() -> None:
    given = [
        {"limit": 100, "window": "30d", "by_channel": True},
        {"limit": 1, "window": "day", "by_channel": False, "group": "marketing"},
    ]
    assert fields_of_caps(read_caps(given)) == given
    assert read_caps([]) == ()
    assert read_caps([{"limit": 1, "window": "90m", "group": None}]) == (Cap(limit=1, window="90m"),)


def test_caps_of_a_category_go_before_those_of_the_tenant() -> None:
    table = read_categories(
        {
            "default": {"channels": ["push"], "caps": [{"limit": 9, "window": "day"}]},
            "categories": {
                "news": {},
                "offers": {"caps": [{"limit": 2, "window": "day"}]},
                "free": {"caps": []},
                "alarm": {"mandatory": True},
            },
            "tenants": {
                7: {
                    "default": {"caps": [{"limit": 5, "window": "day"}]},
                    "offers": {"caps": [{"limit": 1, "window": "day"}]},
                }
            },
        }
    )

    def limits(name: str, club_id: int) -> list[int]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("masscomm.domain.categories.category_table", lambda: table)
            return [cap.limit for cap in caps_of(name, club_id, None)]

    names = ("news", "unlisted", "offers", "free", "alarm")
    assert [limits(name, 8) for name in names] == [[9], [9], [2], [], []]
    assert [limits(name, 7) for name in names] == [[5], [5], [1], [], []]


def test_mandatory_category_with_caps_is_refused() -> None:
    entry = {"mandatory": True, "caps": [{"limit": 1, "window": "day"}]}
    with pytest.raises(CategoriesError, match="mandatory"):
        read_categories({"default": {"channels": ["push"]}, "categories": {"alarm": entry}})


@pytest.mark.parametrize(
    ("zone", "now", "began"),
    [
        ("Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00"),
        ("Asia/Tokyo", "2026-11-30T00:00:00+09:00", "2026-11-30T00:00:00+09:00"),
        # Clocks skip midnight.
        ("America/Santiago", "2026-09-06T08:00:00-03:00", "2026-09-06T01:00:00-03:00"),
        # Clocks are put back at midnight, so that the hour before it is repeated.
        ("America/Santiago", "2026-04-04T23:30:00-04:00", "2026-04-04T00:00:00-03:00"),
        ("no zone", "2026-11-30T23:59:59+00:00", "2026-11-30T00:00:00+00:00"),
        (None, "2026-11-30T23:59:59+00:00", "2026-11-30T00:00:00+00:00"),
    ],
)
def test_day_begins_at_the_users_midnight(zone: str | None, now: str, began: str) -> None:
    moment, start = (round(datetime.fromisoformat(text).timestamp() * 1000) for text in (now, began))
    assert since_ms(Cap(limit=1, window="day"), moment, zone) == start


class Slow:
    """The rules of caps, written down as they are said: a list of all notifications that were let through."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str, str]] = []

    def allowed(self, caps: tuple[Cap, ...], send: str, channel: str, now: int, zone: str) -> bool:
        if (send, channel) in {(each, name) for _, each, name in self.sent}:
            return True
        for cap in caps:
            counted = {
                each
                for at, each, name in self.sent
                if self._is_within(cap, at, now, zone) and (not cap.by_channel or name == channel)
            }
            has_place = any(each == send and (not cap.by_channel or name == channel) for _, each, name in self.sent)
            if not has_place and len(counted) >= cap.limit:
                return False
        self.sent.append((now, send, channel))
        return True

    @staticmethod
    def _is_within(cap: Cap, at: int, now: int, zone: str) -> bool:
        if cap.window == "day":
            day, today = (
                datetime.fromtimestamp(each / 1000, UTC).astimezone(ZoneInfo(zone)).date() for each in (at, now)
            )
            return day == today
        hours = int(cap.window.removesuffix("h"))
        return now - at < hours * HOUR_MS


@pytest.mark.kills(guard="frequency_caps.all_or_none")
@pytest.mark.kills(guard="frequency_caps.own_place")
@pytest.mark.parametrize("seed", range(200))
def test_places_are_those_of_the_rules_in_words(seed: int) -> None:
    choices = random.Random(seed)  # noqa: S311
    caps = tuple(
        Cap(limit=choices.randint(1, 3), window=window, by_channel=by_channel)
        for window, by_channel in choices.sample(
            [("2h", True), ("5h", False), ("day", False), ("day", True), ("24h", False)], choices.randint(1, 3)
        )
    )
    zone = choices.choice(["UTC", "Asia/Tokyo", "America/New_York", "America/Santiago"])
    places: dict[str, dict[str, int]] = {}
    slow, now = Slow(), NOW
    for number in range(40):
        now += choices.choice([0, 1, HOUR_MS - 1, HOUR_MS, 3 * HOUR_MS])
        # A repetition comes soon; one that comes after the window finds its recorded decision.
        send = f"send{number if choices.random() < 0.8 else max(0, number - 1)}"
        channels = tuple(choices.sample(CHANNELS, choices.randint(1, 2)))
        wish = Wish(0, 1, channels, zone)
        known: dict[str, dict[str, int]] = {
            cap.key("news", channel): {} for cap in caps for channel in CHANNELS
        } | places
        before = {(each, channel) for _, each, channel in slow.sent}
        refused = take_places(known, caps, wish, category="news", send_id=send, now_ms=now)
        for channel in channels:
            if (send, channel) not in before:
                expected = slow.allowed(caps, send, channel, now, zone)
                assert (channel not in refused) == expected, (number, send, channel, caps)
        places = known
        assert all(len(taken) <= 2 * 2 * cap.limit + 4 for cap in caps for taken in [places[cap.key("news", "push")]])
