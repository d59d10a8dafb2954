"""GET /v1/sends/{send_id}/recipients: the notifications of a send with their statuses, by user and channel.

The route reads the log of recipients, which spark_metrics writes only if it is enabled. A notification appears once an
outcome of it is counted.

status, reason, channel   filters, each with any number of values
limit                     the maximum number of rows, by default 100
cursor                    next_cursor of the previous page
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from functions.sends_api.routes.known_sends import KnownSends
from functions.sends_api.routes.words import DecidedBy, decided_by, in_words
from masscomm.clock import Clock
from masscomm.domain.statuses import Status
from masscomm.http import parameters as parse
from masscomm.http.cursor import checked_text, encode_cursor, position_in
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import MetricsStore, RecipientKey, RecipientQuery, RecipientRow
from masscomm.stores.sends.port import Sends
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 100, 1_000

PARAMETERS = ("status", "reason", "channel", "limit", "cursor")


class RecipientBody(TypedDict):
    """A notification of a send."""

    user_id: int
    channel: str
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision; null if neither a rule nor user settings determined the status."""
    at: str | None
    """The time of the status."""
    links: Links


class RecipientsBody(TypedDict):
    """The notifications of a send."""

    send_id: str
    rows: list[RecipientBody]
    truncated: bool
    next_cursor: str | None
    since: str | None
    """The beginning of the stored log; null: no notification is missing."""
    watermark: str | None
    generated_at: str | None


@dataclass(frozen=True)
class RecipientsRoute:
    store: MetricsStore
    sends: Sends
    clock: Clock

    def answer(self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> RecipientsBody:
        """Return the response body. Raises Problem (400 with each wrong parameter, 404) or Retry."""
        read = Reader(parameters, PARAMETERS)
        status = read.several("status", notification_status)
        reason = read.several("reason", parse.words)
        channel = read.several("channel", parse.words)
        limit = read.single("limit", _limit)
        cursor = read.single("cursor", parse.cursor)
        read.check()
        send = KnownSends(self.store, self.sends, self.clock).find(send_id, clubs).totals
        query = RecipientQuery(
            send_id=send_id,
            club_id=send.club_id,
            status=status,
            reason=reason,
            channel=channel,
            limit=limit or DEFAULT_LIMIT,
        )
        if cursor is not None:
            query = replace(query, after=position_in(cursor, _without_position(query), read, _key))
        found = self.store.list_recipients(query)
        if found is None:
            raise log_is_off()
        return {
            "send_id": send_id,
            "rows": [_row(send_id, row) for row in found.rows],
            "truncated": found.more,
            "next_cursor": _cursor_after(query, found.rows[-1].key) if found.more else None,
            "since": rfc3339(found.since),
            "watermark": rfc3339(found.watermark),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


notification_status = parse.choice(Status)
_limit = parse.whole_number(1, MAX_LIMIT)


def log_is_off() -> Problem:
    return Problem(404, Text.LOG_OFF.filled())


def _row(send_id: str, row: RecipientRow) -> RecipientBody:
    reason, by = row.reason or None, decided_by(row.decision)
    return {
        "user_id": row.key.user_id,
        "channel": row.key.channel,
        "status": row.status,
        "reason": reason,
        "decision": in_words(row.status, reason, by),
        "decided_by": by,
        "at": rfc3339(row.at),
        "links": {"self": f"/v1/notifications/{send_id}.{row.key.user_id}.{row.key.channel}"},
    }


def _cursor_after(query: RecipientQuery, key: RecipientKey) -> str:
    return encode_cursor(_without_position(query), key.user_id, key.channel)


def _key(parts: list[Any]) -> RecipientKey:
    match parts:
        case [int() as user_id, str() as channel] if -(2**63) <= user_id < 2**63:
            return RecipientKey(user_id, checked_text(channel))
    raise ValueError("not a recipient")


def _without_position(query: RecipientQuery) -> RecipientQuery:
    return replace(query, after=None, limit=0)
