"""The tests that every store of schedules must pass, in memory and real."""

from dataclasses import replace

import pytest

from masscomm.domain.notification_rules import Owner
from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import CatchUp, Occurrence, OccurrenceState, PauseReason, Schedule
from masscomm.domain.time_limits import OCCURRENCES_KEPT_S
from masscomm.stores.schedules.port import Schedules

MINUTE_MS = 60_000
FIRST = LocalTime("2026-11-24T09:00", 1_795_507_200_000)
SECOND = LocalTime("2026-12-01T09:00", FIRST.at_ms + 7 * 24 * 60 * MINUTE_MS)
WEEKLY = Schedule(
    club_id=7,
    name="weekly",
    id="9a2c8c1e-6d0e-4a52-9d5c-0d3c3a1f7f39",
    revision="r1",
    rule="FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0",
    time_zone="Europe/Zurich",
    starts_at_local="2023-11-01T00:00",
    catch_up=CatchUp.LAST,
    expires_after_minutes=90,
    send={"type": "news", "club_id": 7, "to_users": [42]},
    owner=Owner(principal="7d793037a0760186", context={"scopes": "send", "club_ids": "7"}),
    changed_at_ms=1,
    next=FIRST,
)
PAUSED = replace(WEEKLY, revision="r2", next=None, paused=PauseReason.KEY_REVOKED, paused_at_ms=5)


def occurrence(time: LocalTime = FIRST, **values: object) -> Occurrence:
    fields = {
        "schedule_id": WEEKLY.id,
        "club_id": 7,
        "local_time": time.text,
        "at_ms": time.at_ms,
        "state": OccurrenceState.STARTED,
        # A test of the stack reads it before it expires.
        "recorded_at_ms": 4_000_000_000_000 - OCCURRENCES_KEPT_S * 1000,
        "content": {"send": WEEKLY.send},
    }
    return Occurrence(**{**fields, **values})  # type: ignore[arg-type]


class SchedulesContract:
    @pytest.fixture
    def schedules(self) -> Schedules:
        raise NotImplementedError

    def test_stored_schedule_is_found(self, schedules: Schedules) -> None:
        assert schedules.find(7, "weekly") is None
        assert schedules.put(WEEKLY, None)
        assert schedules.find(7, "weekly") == WEEKLY
        assert schedules.find(77, "weekly") is None

    @pytest.mark.kills(guard="schedules.changed_once")
    def test_change_of_another_revision_is_refused(self, schedules: Schedules) -> None:
        assert not schedules.put(PAUSED, WEEKLY)
        assert schedules.put(WEEKLY, None)
        assert not schedules.put(PAUSED, None)
        assert schedules.put(PAUSED, WEEKLY)
        assert not schedules.put(WEEKLY, WEEKLY)
        assert schedules.find(7, "weekly") == PAUSED

    def test_schedules_of_a_club_are_listed_by_name(self, schedules: Schedules) -> None:
        daily, other = replace(WEEKLY, name="daily"), replace(WEEKLY, club_id=77)
        for each in (WEEKLY, daily, other):
            schedules.put(each, None)
        assert list(schedules.of_club(7)) == [daily, WEEKLY]

    def test_deleted_schedule_is_absent(self, schedules: Schedules) -> None:
        schedules.put(WEEKLY, None)
        assert not schedules.delete(77, "weekly")
        assert schedules.delete(7, "weekly")
        assert not schedules.delete(7, "weekly")

    def test_next_occurrence_only_advances(self, schedules: Schedules) -> None:
        schedules.put(WEEKLY, None)
        schedules.advance(WEEKLY, SECOND)
        schedules.advance(WEEKLY, FIRST)
        assert schedules.find(7, "weekly") == replace(WEEKLY, next=SECOND)
        schedules.advance(WEEKLY, None)
        schedules.advance(WEEKLY, SECOND)
        assert schedules.find(7, "weekly") == replace(WEEKLY, next=None)

    def test_schedule_of_another_revision_does_not_advance(self, schedules: Schedules) -> None:
        schedules.advance(WEEKLY, SECOND)
        schedules.put(replace(WEEKLY, revision="r3"), None)
        schedules.advance(WEEKLY, SECOND)
        assert schedules.find(7, "weekly") == replace(WEEKLY, revision="r3")

    @pytest.mark.kills(guard="schedules.recorded_once")
    def test_first_record_of_an_occurrence_is_kept(self, schedules: Schedules) -> None:
        first, skipped = occurrence(), occurrence(state=OccurrenceState.SKIPPED, reason="late", content=None)
        assert schedules.record(first) == first
        assert schedules.record(skipped) == first
        assert list(schedules.history(WEEKLY.id, 10)) == [first]

    def test_completed_occurrence_has_no_content(self, schedules: Schedules) -> None:
        first, second = schedules.record(occurrence()), schedules.record(occurrence(SECOND))
        assert list(schedules.started(WEEKLY.id, FIRST.text)) == [first, second]
        assert list(schedules.started(WEEKLY.id, SECOND.text)) == [second]
        schedules.complete(first)
        assert list(schedules.started(WEEKLY.id, FIRST.text)) == [second]
        sent = replace(first, state=OccurrenceState.SENT, content=None)
        assert list(schedules.history(WEEKLY.id, 10)) == [second, sent]
        assert list(schedules.history(WEEKLY.id, 1)) == [second]
