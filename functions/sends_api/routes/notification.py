"""GET /v1/notifications/{notification}: one notification with the times of its statuses, each explained in words.

A notification is named by its send, user and channel: `<send_id>.<user_id>.<channel>`. The route reads the log of
recipients, which spark_metrics writes only if it is enabled.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from functions.sends_api.routes.conditions import NotificationOfChain, chain_of_notification
from functions.sends_api.routes.known_sends import KnownSends
from functions.sends_api.routes.recipients import log_is_off
from functions.sends_api.routes.words import DecidedBy, decided_by, in_words
from masscomm.clock import Clock
from masscomm.domain.ids import notification_id
from masscomm.domain.statuses import RANK, Status
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.integers import integer_or
from masscomm.stores.metrics.port import LogRow, MetricsStore, RecipientKey
from masscomm.stores.sends.port import Sends
from masscomm.texts import Text

_NOTIFICATION = re.compile(r"([A-Za-z0-9-]{1,64})\.(-?[0-9]+)\.([^.]{1,200})")


class StepBody(TypedDict):
    """A status that a notification reached."""

    at: str | None
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision; null if neither a rule nor user settings determined the status."""


class NotificationBody(TypedDict):
    """A notification with its statuses."""

    notification: str
    notification_id: str
    """The id in the message."""
    send_id: str
    user_id: int
    channel: str
    club_id: int
    type: str
    requested_at: str | None
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision, as in `timeline`."""
    chain: list[NotificationOfChain]
    """The user's notifications of which each waits for the one before it, this one included; [] if it is none."""
    timeline: list[StepBody]
    """The statuses in the order of their times. A repeated status of a redelivered record occurs once."""
    since: str | None
    """The beginning of the stored log; null: no status is missing."""
    watermark: str | None
    generated_at: str | None


@dataclass(frozen=True)
class NotificationRoute:
    store: MetricsStore
    sends: Sends
    clock: Clock

    def answer(self, notification: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> NotificationBody:
        """Return the response body. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        named = _NOTIFICATION.fullmatch(notification)
        user_id = None if named is None else integer_or(named[2], None)
        if named is None or user_id is None:
            raise _not_found()
        send_id, key = named[1], RecipientKey(user_id, named[3])
        known = KnownSends(self.store, self.sends, self.clock).find(send_id, clubs)
        send = known.totals
        found = self.store.timeline(send_id, send.club_id, key)
        if found is None:
            raise log_is_off()
        if not found.rows:
            raise _not_found()
        present = max(found.rows, key=_rank)
        reason, by = present.reason or None, decided_by(present.decision)
        return {
            "notification": notification,
            "notification_id": notification_id(send_id, key.user_id, key.channel),
            "send_id": send_id,
            "user_id": key.user_id,
            "channel": key.channel,
            "club_id": present.club_id,
            "type": present.type,
            "requested_at": rfc3339(send.requested_at),
            "status": present.status,
            "reason": reason,
            "decision": in_words(present.status, reason, by),
            "decided_by": by,
            "chain": chain_of_notification(known.send, user_id, key.channel),
            "timeline": _timeline(found.rows),
            "since": rfc3339(found.since),
            "watermark": rfc3339(found.watermark),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


def _timeline(rows: Iterable[LogRow]) -> list[StepBody]:
    first = {(row.status, row.reason): row for row in sorted(rows, key=lambda row: row.key, reverse=True)}
    steps = sorted(first.values(), key=lambda row: (row.key.at, _rank_of(row.status)))
    return [
        {
            "at": rfc3339(row.key.at),
            "status": row.status,
            "reason": (reason := row.reason or None),
            "decision": in_words(row.status, reason, by := decided_by(row.decision)),
            "decided_by": by,
        }
        for row in steps
    ]


def _rank(row: LogRow) -> tuple[int, datetime]:
    return _rank_of(row.status), row.key.at


def _rank_of(status: str) -> int:
    """Return the rank of a status; -1 for one that a later version recorded."""
    return RANK[Status(status)] if status in RANK else -1


def _not_found() -> Problem:
    return Problem(404, Text.NOTIFICATION_UNKNOWN.filled())
