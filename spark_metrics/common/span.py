"""Parses the time span in a command's arguments, and extends it to whole buckets."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from masscomm.domain.limits import FAR_FUTURE_MS

# The time of a counted record may be this much after its production.
AHEAD = timedelta(milliseconds=FAR_FUTURE_MS)
# The clocks of producers may differ by this much.
CLOCKS = timedelta(days=1)
# The time of a result of a webhook message is at most this far from that of its record.
RESULTS_APART = timedelta(hours=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Span:
    """The time span [first, end). A side with None is open."""

    first: datetime | None = None
    end: datetime | None = None

    def whole(self, step_s: int) -> "Span":
        """Return the span extended to whole buckets of step_s seconds."""
        step = timedelta(seconds=step_s)
        first = self.first and self.first - (self.first - _EPOCH) % step
        return Span(first, self.end and self.end + -(self.end - _EPOCH) % step)

    def since(self, moment: datetime | None) -> "Span":
        """Return the part of the span at or after `moment`."""
        return self if moment is None else Span(max(moment, self.first or moment), self.end)


def instant(text: str) -> datetime:
    """Return an RFC 3339 instant; a date is its midnight in UTC. Raises ValueError."""
    if len(text) == len("2026-11-21"):
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no offset: write 2026-11-21T09:30:00Z")
    return moment.astimezone(UTC)
