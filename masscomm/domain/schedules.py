"""Schedules: a send that recurs at the times of a rule. Each of its times becomes an occurrence, and mostly a send."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from masscomm.domain.notification_rules import Owner
from masscomm.domain.recurrences import LocalTime, Recurrence, read_rule
from masscomm.domain.time_limits import OCCURRENCE_EXPIRES_S
from masscomm.domain.time_zones import zone_of
from masscomm.errors import DeadLetter

# Of one tenant.
MAX_SCHEDULES = 100
# The occurrences and the next times in a response.
OCCURRENCES_SHOWN, NEXT_SHOWN = 100, 10
MAX_EXPIRES_AFTER_MINUTES = OCCURRENCE_EXPIRES_S // 60


class CatchUp(StrEnum):
    """What becomes of occurrences that are late."""

    NONE = "none"  # They are skipped.
    LAST = "last"  # The newest is made, and the others are skipped.


class PauseReason(StrEnum):
    """Why a schedule is paused."""

    REQUESTED = "requested"  # A request paused it.
    KEY_REVOKED = "key_revoked"  # The owner's API key was revoked or has expired.
    NOT_PERMITTED = "not_permitted"  # The owner may not request the send: it lacks the club or a scope.
    CATEGORY_RETIRED = "category_retired"  # The category is retired or unknown.
    AUDIENCE_UNKNOWN = "audience_unknown"  # The saved audience is deleted, or no longer valid.


class OccurrenceState(StrEnum):
    """What has become of an occurrence."""

    STARTED = "started"  # It is decided that its send is made.
    SENT = "sent"  # Its send is requested.
    SKIPPED = "skipped"  # It has no send.


# The reasons of skipped occurrences, in addition to those for which the schedule pauses.
LATE, RECIPIENTS_A_DAY = "late", "recipients_a_day"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A recurring send of a club (tenant). Times are in ms since the epoch."""

    club_id: int
    name: str
    # A random UUID, from which the ids of its sends are derived.
    id: str
    # Each change has another one. A delayed record of an earlier revision begins no occurrence.
    revision: str
    # The RRULE, the name of the time zone, and the local time from which the rule counts.
    rule: str
    time_zone: str
    starts_at_local: str
    catch_up: CatchUp
    # The minutes after an occurrence until which its recipients are notified.
    expires_after_minutes: int | None = None
    # The send as in a request, without its times.
    send: Mapping[str, Any]
    # Whose permissions and limits apply: the caller that made, changed or resumed it last.
    owner: Owner
    changed_at_ms: int
    # The next occurrence; None: the schedule has ended, or is paused.
    next: LocalTime | None = None
    # Why it is paused, and since when; None: it is not.
    paused: PauseReason | None = None
    paused_at_ms: int | None = None

    @property
    def state(self) -> Literal["active", "paused", "ended"]:
        if self.paused is not None:
            return "paused"
        return "ended" if self.next is None else "active"

    def recurrence(self) -> Recurrence:
        """Return its times. Raises InvalidRule, or DeadLetter if this installation has no such time zone any more."""
        zone = zone_of(self.time_zone)
        if zone is None:
            raise DeadLetter("invalid", f"the time zone {self.time_zone} is unknown")
        return read_rule(self.rule, self.starts_at_local, zone)

    def paused_for(self, reason: PauseReason, revision: str, now_ms: int) -> "Schedule":
        """Return the schedule as it is paused, in the next revision."""
        return replace(self, next=None, revision=revision, paused=reason, paused_at_ms=now_ms)

    def expires_at_ms(self, at_ms: int) -> int | None:
        """Return the time at which the send of an occurrence expires; None if it does not."""
        return None if self.expires_after_minutes is None else at_ms + self.expires_after_minutes * 60_000


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """One time of a schedule. Times are in ms since the epoch."""

    schedule_id: str
    club_id: int
    local_time: str
    at_ms: int
    state: OccurrenceState
    recorded_at_ms: int
    # Why it is skipped.
    reason: str | None = None
    # Of a started one, its send until it is requested: the fields of the request, with the definition of a saved
    # audience; the principal; and the limit of recipients a day.
    content: Mapping[str, Any] | None = None
