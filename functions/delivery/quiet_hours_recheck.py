"""Decides whether quiet hours are checked again for a notification that was requested long ago. The rules are pure
functions.

A notification is late if the provider or a function was down, or if a broadcast was processed first. A notification
that is only minutes old was checked minutes ago, and needs no second look-up.
"""

from collections.abc import Mapping

from masscomm.domain.categories import category
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.lanes import Lane
from masscomm.domain.preferences import Decision
from masscomm.domain.push_options import is_silent
from masscomm.domain.quiet_hours import decide_by_hours
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import User, UserSettings

# A message is delivered at most this many seconds after quiet hours have begun.
RECHECK_AFTER_S = 900.0


def users_to_recheck(
    delivery: DeliveryRequested,
    lane: Lane,
    settings: Mapping[int, UserSettings],
    *,
    now_ms: int,
    after_s: float = RECHECK_AFTER_S,
) -> list[int]:
    """Return the users whose quiet hours must be checked again; their time zones are looked up for this."""
    # Preferences were checked some time after the request; the record does not contain the exact time.
    if is_silent(delivery.push, delivery.channel):  # guard: quiet_hours.late_silent_push
        return []
    if lane is Lane.CRITICAL or now_ms - min(delivery.timestamp, delivery.built_at) < after_s * 1000:
        return []
    found = [
        user_id for user_id in delivery.user_ids if user_id in settings and settings[user_id].quiet_hours is not None
    ]
    return [] if found and category(delivery.type, at_ms=delivery.timestamp).mandatory else found


def quiet_decisions(
    delivery: DeliveryRequested,
    users: Mapping[int, User],
    settings: Mapping[int, UserSettings],
    *,
    now_ms: int,
    retry_schedule: RetrySchedule,
) -> dict[int, Decision]:
    """Return the decisions for the users that are in quiet hours, by user id: held until quiet hours end, or expired
    by then.

    Raises Stop if no time zones are installed.
    """
    # The deadline includes the retry schedule's lifetime, which limits a message without expires_at.
    deadline_ms = retry_schedule.deadline_ms(since_ms=delivery.since_ms, expires_at=delivery.expires_at)
    found = {
        user_id: decide_by_hours(
            user, settings[user_id], type=delivery.type, at_ms=delivery.timestamp, now_ms=now_ms, expires_at=deadline_ms
        )
        for user_id, user in users.items()
    }
    return {user_id: decision for user_id, decision in found.items() if decision is not None}
