"""The dead letters of an endpoint: messages with events that are not attempted any more.

GET /v1/webhooks/{endpoint_id}/dead-letters           in their order, the oldest first
POST /v1/webhooks/{endpoint_id}/dead-letters/ack      delete those up to one of them
POST /v1/webhooks/{endpoint_id}/dead-letters/replay   send some of them again, under the same ids of messages

An endpoint of another club and an unknown one have the same response.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from masscomm import fast_json
from masscomm.chain.waiting_messages import WaitingMessage, WaitingMessages, records_of
from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.events import is_event_type
from masscomm.domain.time_limits import WEBHOOK_DEAD_LETTERS_KEPT_S, WEBHOOK_DEAD_LETTERS_SETTLED_S
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.http import parameters as parse
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.endpoints import endpoint_key, unknown_endpoint
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.webhook_dead_letters.port import (
    DeadLetterPage,
    WebhookDeadLetter,
    WebhookDeadLetters,
    position_at,
)
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
PARAMETERS = ("after", "up_to", "type", "limit", "cursor")
# The dead letters that one request acknowledges or sends again.
MAX_AT_ONCE = 500
_ID = re.compile(r"[0-9]{13}-evt_[0-9a-f]{32}", re.ASCII)


class WebhookDeadLetterBody(TypedDict):
    """A message that is not attempted any more."""

    id: str
    message_id: str
    """The value of the header webhook-id of a request with this message only."""
    event_id: str
    type: str
    club_id: int
    data: dict[str, Any]
    """The data of the event."""
    occurred_at: str
    at: str
    """The time at which it became a dead letter."""
    reason: str
    attempts: int
    status: int | None
    """The status of the last response; null if there was none."""


class WebhookDeadLettersBody(TypedDict):
    """Dead letters, the oldest first."""

    rows: list[WebhookDeadLetterBody]
    truncated: bool
    """Whether there may be more. A page may have fewer rows than its limit."""
    next_cursor: str | None
    last: str | None
    """The value of `after` for the next poll; null if nothing was read."""


class AcknowledgeWebhooksRequest(TypedDict):
    """Which dead letters the caller has processed."""

    up_to: str
    """The id of the last one, or a time."""


class AcknowledgedWebhooksBody(TypedDict):
    """Acknowledged dead letters, which are deleted."""

    acknowledged: int
    truncated: bool
    """Whether there are more up to this one: repeat the request."""


class ReplayWebhooksRequest(TypedDict):
    """Which dead letters are sent again: those with these ids, or those of a span and a type."""

    ids: NotRequired[list[str]]
    after: NotRequired[str]
    """The id or the time after which the span begins."""
    up_to: NotRequired[str]
    """The id of the last one of the span, or a time."""
    type: NotRequired[str]


class ReplayedWebhooksBody(TypedDict):
    """Dead letters that are sent again, and deleted."""

    replayed: int
    truncated: bool
    """Whether the span may have more: repeat the request."""


@dataclass(frozen=True, kw_only=True)
class WebhookDeadLettersRoute:
    endpoints: WebhookEndpoints
    dead_letters: WebhookDeadLetters
    waiting: WaitingMessages
    clock: Clock

    def answer(self, endpoint_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> WebhookDeadLettersBody:
        """Return a page of the dead letters of an endpoint. Raises Problem (400, 404) or Retry."""
        read = Reader(parameters, PARAMETERS)
        limit = read.single("limit", _limit) or DEFAULT_LIMIT
        after, up_to = read.single("after", _position), read.single("up_to", _position)
        event_type, cursor = read.single("type", _type), read.single("cursor", parse.cursor)
        read.check()
        endpoint = self._visible(endpoint_id, clubs)
        if cursor is not None:
            after = position_in(cursor, endpoint_id, read, _id_in)
        page = self._page(endpoint.key, after, up_to, event_type, limit)
        return {
            "rows": [_row(each) for each in page.letters],
            "truncated": page.more,
            "next_cursor": encode_cursor(endpoint_id, page.last) if page.more else None,
            "last": page.last,
        }

    def acknowledge(
        self, endpoint_id: str, content: str | None, clubs: Clubs, audit: Audit
    ) -> AcknowledgedWebhooksBody:
        """Delete the dead letters up to one. Raises Problem (400, 404) or Retry."""
        fields = read_object(content)
        _check(fields, AcknowledgeWebhooksRequest, required=("up_to",))
        endpoint = self._visible(endpoint_id, clubs)
        found, more = self._span(endpoint.key, None, _position(fields["up_to"]), None)
        self.dead_letters.delete(endpoint.key, [each.id for each in found])
        detail = f"{len(found)} up to {fields['up_to']}"
        audit(Action.WEBHOOK_ACKNOWLEDGED, subject=endpoint_id, clubs=[endpoint.key.club_id], detail=detail)
        return {"acknowledged": len(found), "truncated": more}

    def replay(self, endpoint_id: str, content: str | None, clubs: Clubs, audit: Audit) -> ReplayedWebhooksBody:
        """Send dead letters again, and delete them. Raises Problem (400, 404, 409 if the endpoint is disabled) or
        Retry.
        """
        fields = read_object(content)
        _check(fields, ReplayWebhooksRequest)
        endpoint = self._visible(endpoint_id, clubs)
        if not endpoint.enabled:
            raise Problem(409, Text.ENDPOINT_DISABLED.filled())
        if "ids" in fields:
            stored = self.dead_letters.find(endpoint.key, fields["ids"])
            found, more = [each for each in stored if each.id > self._expired()], False
        else:
            after, up_to = (_position(fields[name]) if name in fields else None for name in ("after", "up_to"))
            found, more = self._span(endpoint.key, after, up_to, fields.get("type"))
        now_ms = self.clock.now_ms()
        for some in records_of(found, _waiting):
            self.waiting.put(
                endpoint.key,
                [_waiting(each) for each in some],
                attempt=0,
                due_ms=now_ms,
                first_tried_at=now_ms,
            )
            # A crash in between sends them twice, under the same ids.
            self.dead_letters.delete(endpoint.key, [each.id for each in some])
        audit(Action.WEBHOOK_REPLAYED, subject=endpoint_id, clubs=[endpoint.key.club_id], detail=str(len(found)))
        return {"replayed": len(found), "truncated": more}

    def _span(
        self, endpoint: EndpointKey, after: str | None, up_to: str | None, event_type: str | None
    ) -> tuple[list[WebhookDeadLetter], bool]:
        """Return the first dead letters of a span, and whether there may be more."""
        found: list[WebhookDeadLetter] = []
        more = True
        while more and len(found) < MAX_AT_ONCE:
            page = self._page(endpoint, after, up_to, event_type, MAX_LIMIT)
            found += page.letters
            after, more = page.last, page.more
        return found[:MAX_AT_ONCE], more or len(found) > MAX_AT_ONCE

    def _page(
        self, endpoint: EndpointKey, after: str | None, up_to: str | None, event_type: str | None, limit: int
    ) -> DeadLetterPage:
        """Return the first dead letters of a span that have neither expired nor are so new that an earlier one may
        still be stored.
        """
        now_ms = self.clock.now_ms()
        settled = position_at(now_ms - WEBHOOK_DEAD_LETTERS_SETTLED_S * 1000 - 1)
        return self.dead_letters.page(
            endpoint,
            limit=limit,
            after=max(after or "", self._expired()),  # guard: events.expired_dead_letter
            up_to=min(up_to or settled, settled),
            event_type=event_type,
        )

    def _expired(self) -> str:
        """Return the position of the last dead letter that has expired: DynamoDB may still have it."""
        return position_at(self.clock.now_ms() - WEBHOOK_DEAD_LETTERS_KEPT_S * 1000)

    def _visible(self, endpoint_id: str, clubs: Clubs) -> Endpoint:
        """Return an endpoint of the caller's clubs. Raises Problem with status 404."""
        endpoint = self.endpoints.find(endpoint_key(endpoint_id, clubs))
        if endpoint is None:
            raise unknown_endpoint()
        return endpoint


def _waiting(letter: WebhookDeadLetter) -> WaitingMessage:
    return WaitingMessage(letter.event, letter.produced_at_ms)


def _check(fields: Mapping[str, Any], request: Any, required: Sequence[str] = ()) -> None:
    """Check the fields of a request. Raises Problem with status 400."""
    errors = undefined_fields(fields, request)
    errors += [FieldError(name, Text.MISSING.filled()) for name in required if name not in fields]
    errors += [
        FieldError(name, Text.WEBHOOK_DEAD_LETTER_POSITION.filled())
        for name in ("after", "up_to")
        if name in fields and not _is_position(fields[name])
    ]
    ids = fields.get("ids", [])
    if not isinstance(ids, list) or len(ids) > MAX_LIMIT or not all(map(_is_id, ids)):
        errors.append(FieldError("ids", Text.WEBHOOK_DEAD_LETTER_IDS.filled(maximum=MAX_LIMIT)))
    if "ids" in fields and len(fields) > 1:
        errors.append(FieldError("ids", Text.WEBHOOK_DEAD_LETTER_IDS_ALONE.filled()))
    if "type" in fields and not is_event_type(fields["type"]):
        errors.append(FieldError("type", Text.EVENT_TYPE_FORM.filled()))
    if errors:
        raise unusable(errors)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


_limit = parse.whole_number(1, MAX_LIMIT)


@parse.of_form(Text.WEBHOOK_DEAD_LETTER_POSITION.filled())
def _position(text: str) -> str:
    """Return the position of an id, or after a time."""
    return text if _is_id(text) else position_at(round(parse.time(text).timestamp() * 1000))


def _is_position(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(_position(value))
    except ValueError:
        return False


def _id_in(key: list[Any]) -> str:
    match key:
        case [str() as id_] if _is_id(id_):
            return id_
    raise ValueError("not a dead letter")


@parse.of_form(Text.EVENT_TYPE_FORM.filled())
def _type(text: str) -> str:
    if not is_event_type(text):
        raise ValueError("not a type")
    return text


def _row(letter: WebhookDeadLetter) -> WebhookDeadLetterBody:
    return {
        "id": letter.id,
        "message_id": letter.message_id,
        "event_id": letter.event.event_id,
        "type": letter.event.type,
        "club_id": letter.event.club_id,
        "data": fast_json.parsed(letter.event.data.encode()),
        "occurred_at": time_of_ms(letter.event.occurred_at),
        "at": time_of_ms(letter.at_ms),
        "reason": letter.reason,
        "attempts": letter.attempts,
        "status": letter.status,
    }
