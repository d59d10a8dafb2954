"""The pace of a send: at most a number of its recipients is released in a minute.

A send states the number (`per_minute`), or the time over which its recipients are spread (`spread_over`); then each
recipient has a minute by its position. A recipient takes a place of the minute in which it is decided about. Recipients
who find no place are planned for later minutes, behind all others. So nothing is released faster after a pause, quiet
hours or an outage.

Minutes are whole minutes since the epoch. All functions are pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from masscomm.domain.digests import length_ms
from masscomm.domain.limits import FIELDS_OF_SEND
from masscomm.domain.records import RecheckRequested, SendRequested

# The delay reason of recipients that wait for their minute, and the layer of their decisions.
DELAY_REASON = "pace"
MAX_PER_MINUTE = FIELDS_OF_SEND["per_minute"].highest or 0
# The largest number of minutes for which one pass plans recipients: each of them becomes a record of its own.
MAX_MINUTES = 60
MINUTE_MS = 60_000
# The forms of a spread, from a minute to 7 days.
SPREAD_PATTERN = r"^(([1-9][0-9]{0,3}|100[0-7][0-9]|10080)m|([1-9][0-9]?|1[0-5][0-9]|16[0-8])h|[1-7]d)$"
# In milliseconds.
_LONGEST = FIELDS_OF_SEND["spread_over_ms"].highest or 0


class PaceError(ValueError):
    """A pace is not valid. The message names the field."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The pace of the recipients of a record."""

    # The largest number of recipients that are released in a minute.
    limit: int
    # The time at which the send begins, in ms since the epoch.
    start_ms: int
    # How long its recipients are spread; None: they are released as fast as the limit permits.
    spread_ms: int | None = None
    # The number of the send's records, and of the positions of each.
    chunks: int = 1
    chunk_size: int = 1
    # 0: the send's own pace; otherwise the revision of the control that replaced it.
    revision: int = 0

    @property
    def end_ms(self) -> int:
        """Return the time after which nothing is planned, in ms since the epoch."""
        return self.start_ms + _LONGEST

    @property
    def words(self) -> str:
        """Return the pace as part of a decision."""
        if self.spread_ms is None:
            return f"at most {self.limit} recipients a minute"
        return f"spread over {self.spread_ms // MINUTE_MS} minutes"

    def due_minute(self, chunk_index: int, position: int) -> int:
        """Return the minute of a recipient by its position; 0: it has none."""
        if self.spread_ms is None:
            return 0
        place, places = chunk_index * self.chunk_size + position, self.chunks * self.chunk_size
        return (self.start_ms + self.spread_ms * place // places) // MINUTE_MS

    def first_planned(self, minute: int) -> int:
        """Return the first minute after `minute` for which recipients without a place are planned: the minutes of a
        spread belong to others.
        """
        return max(minute + 1, -(-(self.start_ms + (self.spread_ms or 0)) // MINUTE_MS))


@dataclass(frozen=True, kw_only=True)
class PaceBook:
    """The state of a send's pace, which the register keeps."""

    # The minute in which recipients are released, and how many were.
    minute: int = 0
    released: int = 0
    # The last minute for which recipients are planned, and how many are; 0: none.
    planned_minute: int = 0
    planned: int = 0
    # The largest number of recipients in a minute, and the revision of the pace that has it.
    limit: int = 0
    pace_revision: int = 0
    # The number of changes.
    revision: int = 0


class Taken(NamedTuple):
    """The result of a pass over recipients."""

    book: PaceBook
    # Position → the minute for which the recipient waits.
    waits: Mapping[int, int]
    # The positions of recipients that are planned by a record of their own, and of those that no minute is left for.
    uncounted: Sequence[int] = ()
    expired: Sequence[int] = ()


def under(book: PaceBook, pace: Pace) -> PaceBook:
    """Return the book under a pace. A pace of a later revision plans anew; one of an earlier revision, which another
    environment has read before the change, changes nothing.
    """
    if pace.revision < book.pace_revision:  # guard: pace.earlier_revision
        return book
    if pace.revision > book.pace_revision:
        return replace(book, planned_minute=0, planned=0, limit=pace.limit, pace_revision=pace.revision)
    # The last record of a spread send may be smaller than the others.
    return replace(book, limit=max(book.limit, pace.limit))


def release(book: PaceBook, minute: int, wanted: int) -> tuple[PaceBook, int]:
    """Return how many recipients may be released in a minute, and the book with them.

    If the clock of another environment was ahead, its minute is the present one.
    """
    if minute > book.minute:
        book = replace(book, minute=minute, released=0)
    count = max(0, min(wanted, book.limit - book.released))  # guard: pace.limit_of_a_minute
    return replace(book, released=book.released + count), count


def plan(
    book: PaceBook, earliest: int, wanted: int, *, last: int, most: int = MAX_MINUTES
) -> tuple[PaceBook, list[tuple[int, int]]]:
    """Plan recipients behind those that are planned already.

    Args:
        book: The state of the pace.
        earliest: The first minute for which they may be planned.
        wanted: The number of recipients.
        last: The last minute for which they may be planned.
        most: The largest number of minutes.

    Returns:
        The book, and minutes, each with a number of recipients. There are fewer than wanted if `most` or `last` is
        reached.
    """
    found: list[tuple[int, int]] = []
    minute, planned = max((book.planned_minute, book.planned), (earliest, 0))
    while wanted and len(found) < most:
        if planned >= book.limit:
            minute, planned = minute + 1, 0
        if minute > last:
            break
        count = min(wanted, book.limit - planned)
        found.append((minute, count))
        planned, wanted = planned + count, wanted - count
    return (replace(book, planned_minute=minute, planned=planned) if found else book), found


def take(book: PaceBook, pace: Pace, now_ms: int, due: Mapping[int, int], *, expires_at: int | None = None) -> Taken:
    """Take places for recipients.

    Args:
        book: The state of the pace.
        pace: The pace.
        now_ms: The present time, in ms since the epoch.
        due: Position → the minute of the recipient (Pace.due_minute), in the order of positions.
        expires_at: The time at which the send ends, in ms since the epoch.
    """
    book, minute = under(book, pace), now_ms // MINUTE_MS
    end_ms = pace.end_ms if expires_at is None else min(pace.end_ms, expires_at)
    last = -(-end_ms // MINUTE_MS) - 1  # The minute begins before the end.
    ready = [position for position, at in due.items() if at <= minute]
    book, count = release(book, minute, len(ready))
    left = ready[count:]
    book, planned = plan(book, pace.first_planned(minute), len(left), last=last)
    waits: dict[int, int] = {}
    rest = iter(left)
    for at, number in planned:
        waits |= {next(rest): at for _ in range(number)}
    unplanned = list(rest)
    is_full = len(planned) == MAX_MINUTES
    expired = [] if is_full else unplanned
    uncounted = unplanned if is_full else []
    minutes = {at for at, _ in planned}
    for position, at in due.items():
        if at <= minute:
            continue
        if at > last:
            expired.append(position)
        elif at in minutes or len(minutes) < MAX_MINUTES:
            minutes.add(at)
            waits[position] = at
        else:
            uncounted.append(position)
    return Taken(book, waits, uncounted, expired)


def limit_of(spread_ms: int, recipients: int) -> int:
    """Return how many recipients a spread releases in a minute at most."""
    return -(-recipients * MINUTE_MS // spread_ms)


def is_paced(record: RecheckRequested | SendRequested) -> bool:
    """Return whether a send has a pace."""
    return record.per_minute is not None or record.spread_over_ms is not None


def spread_ms_in(text: str) -> int:
    """Return the length of a spread such as 90m, 2h or 1d in milliseconds. Raises PaceError."""
    if not isinstance(text, str) or re.fullmatch(SPREAD_PATTERN, text, re.ASCII) is None:
        raise PaceError("spread_over must be minutes, hours or days such as 90m, 2h or 1d, at most 7d")
    return length_ms(text)


def spread_text(spread_ms: int) -> str:
    """Return the length of a spread in its shortest form, such as 2h."""
    minutes = spread_ms // MINUTE_MS
    if minutes % 1_440 == 0:
        return f"{minutes // 1_440}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"


def expected_end_ms(book: PaceBook, begins_at_ms: int, spread_ms: int | None, revision: int) -> int | None:
    """Return the end of the last minute for which recipients are planned; None if none are, or if they are about to be
    planned under the pace of a later revision.
    """
    planned = book.planned_minute if book.pace_revision >= revision else 0
    ends = [(planned + 1) * MINUTE_MS] if planned else []
    ends += [] if spread_ms is None else [begins_at_ms + spread_ms]
    return max(ends, default=None)


def check_pace(per_minute: int | None, spread_ms: int | None) -> None:
    """Check the pace in a record. Raises PaceError."""
    if per_minute is not None and spread_ms is not None:
        raise PaceError("a send has per_minute or spread_over, not both")
    if per_minute is not None and not 1 <= per_minute <= MAX_PER_MINUTE:
        raise PaceError(f"per_minute must be from 1 to {MAX_PER_MINUTE}")
    if spread_ms is not None and (spread_ms % MINUTE_MS or not MINUTE_MS <= spread_ms <= _LONGEST):
        raise PaceError(f"spread_over must be whole minutes, at least one and at most {_LONGEST // 86_400_000} days")


def minutes_of(per_minute: int | None, spread_ms: int | None, recipients: int) -> int | None:
    """Return the number of minutes that a send to so many recipients takes; None if it has no pace."""
    if per_minute is not None:
        return -(-recipients // per_minute)
    return None if spread_ms is None else spread_ms // MINUTE_MS


def is_too_slow(per_minute: int | None, recipients: int) -> bool:
    """Return whether a send would take longer than a pace may last."""
    return per_minute is not None and recipients * MINUTE_MS > per_minute * _LONGEST


def ends_late(spread_ms: int | None, start_ms: int, expires_at: int | None) -> bool:
    """Return whether a spread ends after its send."""
    return spread_ms is not None and expires_at is not None and start_ms + spread_ms > expires_at
