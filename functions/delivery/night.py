"""Whoever could be notified when it was decided may be asleep by now: quiet hours are looked at once more.

Of what has been on its way for long: the provider was away, or one of our functions, or a broadcast stood before it.
What arrives in minutes was checked minutes ago, and costs no look-up.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.categories import category
from masscomm.domain.lanes import Lane
from masscomm.domain.preferences import Decision
from masscomm.domain.quiet_hours import decide_by_hours
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import UserSettings
from masscomm.stores.retry_schedule import RetrySchedule

# Quiet hours are missed by so long at most.
LOOK_AGAIN_AFTER_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Night:
    """after_s: how long something must have been on its way."""

    directory: Directory
    clock: Clock
    retry_schedule: RetrySchedule
    after_s: float = LOOK_AGAIN_AFTER_S

    def asleep(
        self, delivery: DeliveryRequested, lane: Lane, settings: Mapping[int, UserSettings]
    ) -> dict[int, Decision]:
        """By user, of whoever is in quiet hours: held until they end, or expired by then.

        Errors: Retry where they cannot be looked up; Stop (no time zones).
        """
        now_ms = self.clock.now_ms()
        # It was decided after it was asked for: when exactly, no record says.
        if lane is Lane.CRITICAL or now_ms - min(delivery.timestamp, delivery.built_at) < self.after_s * 1000:
            return {}
        wishes = {
            user_id: settings[user_id]
            for user_id in delivery.user_ids
            if user_id in settings and settings[user_id].quiet_hours is not None
        }
        if not wishes or category(delivery.type).mandatory:
            return {}
        users = self.directory.users(list(wishes))
        # Nobody is held for ever: what has no expires_at is tried for so long, awake or asleep.
        deadline_ms = self.retry_schedule.deadline_ms(since_ms=delivery.since_ms, expires_at=delivery.expires_at)
        found = {
            user_id: decide_by_hours(user, wishes[user_id], type=delivery.type, now_ms=now_ms, expires_at=deadline_ms)
            for user_id, user in users.items()
        }
        return {user_id: decision for user_id, decision in found.items() if decision is not None}
