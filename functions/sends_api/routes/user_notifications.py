"""GET /v1/users/{user_id}/notifications: a user's notifications with their statuses, the latest first.

The route reads the log of recipients, which spark_metrics writes only if it is enabled.

start, end   RFC 3339 with an offset: notifications that reached their status in [start, end); either may be missing
club_id, channel   filters, each with any number of values
limit        the maximum number of rows, by default 100
cursor       next_cursor of the previous page

since is the beginning of the stored log: earlier notifications are missing, because the log was disabled or their days
are deleted. If since is null, no notification is missing. complete is true once the watermark is later than `end` by
the grace; without `end` it is false.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from functions.sends_api.cursor import continued, cursor_after
from masscomm.clock import Clock
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.metrics.port import LogKey, LogQuery, MetricsStore, is_complete
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 100, 1_000

PARAMETERS = ("start", "end", "limit", "cursor", "club_id", "channel")


class UserNotification(TypedDict):
    """A notification of the user, with its status."""

    at: str
    """The time at which the notification reached its status."""
    send_id: str
    channel: str
    club_id: int
    type: str
    status: str
    reason: str | None


class UserNotificationsBody(TypedDict):
    """A user's notifications, the latest first."""

    user_id: int
    rows: list[UserNotification]
    truncated: bool
    """Whether there are more notifications."""
    next_cursor: str | None
    since: str | None
    """The beginning of the stored log; null: no notification is missing."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    complete: bool
    generated_at: str


@dataclass(frozen=True)
class UserNotificationsRoute:
    """The route GET /v1/users/{user_id}/notifications. `grace` has the same meaning as in MetricsRoute."""

    store: MetricsStore
    clock: Clock
    grace: timedelta

    def answer(self, user_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> UserNotificationsBody:
        """Return the response body, for the clubs that the caller may read.

        Raises:
            Problem: 400 with each wrong parameter, 403, or 404 if the log is off.
            Retry: the store is unavailable.
        """
        query = _parsed(user_id, parameters, clubs)
        found = self.store.log(query)
        if found is None:
            raise Problem(404, Text.LOG_OFF.filled())
        return {
            "user_id": query.user_id,
            "rows": [
                {
                    "at": rfc3339(row.key.at),
                    "send_id": row.key.send_id,
                    "channel": row.key.channel,
                    "club_id": row.club_id,
                    "type": row.type,
                    "status": row.status,
                    "reason": row.reason or None,
                }
                for row in found.rows
            ],
            "truncated": found.more,
            "next_cursor": cursor_after(query, found.rows[-1].key) if found.more else None,
            "since": rfc3339(found.since),
            "watermark": rfc3339(found.watermark),
            "grace_ms": max(self.grace, found.grace) // timedelta(milliseconds=1),
            "complete": query.end is not None and is_complete(found.watermark, query.end, self.grace, found.grace),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


def _parsed(user_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> LogQuery:
    read = Reader(parameters, PARAMETERS)
    start = read.single("start", parse.time)
    end = read.single("end", parse.time)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    club_id = read.several("club_id", parse_club_id)
    channel = read.several("channel", parse.words)
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    try:
        user = parse_club_id(user_id)
    except ValueError:
        read.refuse("user_id", Text.UNUSABLE.filled(form=parse_club_id.form))
    read.check()
    query = LogQuery(
        user_id=user, start=start, end=end, club_id=seen(club_id, clubs), channel=channel, limit=limit or DEFAULT_LIMIT
    )
    return continued(query, cursor, LogKey, read)


_limit = parse.whole_number(1, MAX_LIMIT)
