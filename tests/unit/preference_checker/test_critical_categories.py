"""A send of a critical category has the critical lane, also on another topic: nothing delays it."""

from typing import Any

import pytest

from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.domain.users import User, UserSettings
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW, results_of, send
from tests.support.harness.preference_checker import Checker

HOUR_MS = 3_600_000


@pytest.fixture
def checker(stored_categories: InMemoryCategories) -> Checker:
    put_version(stored_categories, "alarms", {"channels": ["push"], "critical": True}, NOW - HOUR_MS)
    known_categories().read()
    return Checker()


def build_topics(checker: Checker) -> set[str]:
    return {topic for topic, *_ in checker.producer.produced if topics.base_of(topic) == topics.BUILD}


@pytest.mark.kills(guard="lanes.critical_category")
@pytest.mark.parametrize("users", [1, RANGE_SIZE + 1])
@pytest.mark.parametrize("topic", [topics.SEND_MONOLITH, topics.SEND_API])
def test_critical_category_has_the_critical_lane(checker: Checker, topic: str, users: int) -> None:
    checker.put_users(range(1, users + 1))
    assert checker.check(send(range(1, users + 1), type="alarms"), topic=topic) == []
    assert build_topics(checker) == {"build.critical"}
    assert {topic for topic, *_ in checker.producer.produced} == {"build.critical"}


def test_earlier_send_has_the_lane_of_its_topic(checker: Checker) -> None:
    assert checker.check(send([1], type="alarms", timestamp=NOW - 2 * HOUR_MS)) == []
    assert build_topics(checker) == {"build.small"}


def test_no_quiet_hours_cap_or_digest_delays_it(checker: Checker, stored_categories: InMemoryCategories) -> None:
    night = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
    checker.directory.put(User(user_id=1, club_id=7, time_zone="UTC"), UserSettings(user_id=1, quiet_hours=night))
    put_version(stored_categories, "news", {"channels": ["push"]}, NOW - HOUR_MS)
    known_categories().read()
    digest = '{"template": "t", "window": "1h"}'
    for type, expected in (("alarms", 1), ("news", 0)):
        before = len(checker.builds())
        assert checker.check(send([1], type=type, send_id=type, digest=digest)) == []
        assert len(checker.builds()) - before == expected


@pytest.mark.parametrize("pace", [{"per_minute": 5}, {"spread_over_ms": HOUR_MS}])
def test_send_with_a_pace_is_dead_lettered(checker: Checker, pace: dict[str, Any]) -> None:
    assert checker.check(send([1], type="alarms", **pace)) == []
    assert results_of(checker.outcomes()) == {(1, "push"): ("failed", "dead_letter")}
    assert checker.builds() == []
