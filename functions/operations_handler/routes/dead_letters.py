"""GET /v1/dead-letters: the records that could not be processed, the latest first.
GET /v1/dead-letters/{position}: one, with its payload. POST /v1/dead-letters/{position}/replay and /discard.

club_id      letters of this club (tenant) only
topic        the source topic
reason       why the record was dead-lettered
function     the function that dead-lettered it
status       open, replayed or discarded
start, end   RFC 3339 with an offset: letters in [start, end); either may be missing
limit        the maximum number of rows, by default 20
cursor       next_cursor of the previous page

Without the scope users:read, a letter has the names and types of its fields in place of their values, and no error.
With it, reading the values is audited.

The club of a letter is in its record. A letter whose record cannot be decoded, or has no club, is visible to callers
who may see every club. The texts of a letter are written by other systems: they are shortened, and control characters
are made visible.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict
from urllib.parse import unquote

from masscomm.domain.audit import Action, Result
from masscomm.http import parameters as parse
from masscomm.http.body import as_object, check_empty, read_fields, unknown_fields
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.idempotency import digest_of
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.requested_clubs import seen
from masscomm.http.scopes import Scope
from masscomm.http.single_users import sees_single_users
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.kafka.avro import Codec
from masscomm.kafka.payloads import Payload, outline, payload_of
from masscomm.operations.dead_letter_marks import Mark
from masscomm.operations.dead_letter_replays import Done
from masscomm.operations.dead_letter_store import DeadLetterStore
from masscomm.operations.dead_letters import DeadLetter, Filter, club_of
from masscomm.stores.audit_log.port import Audit
from masscomm.texts import Text
from masscomm.untrusted import visible, visible_json

DEFAULT_LIMIT, MAX_LIMIT = 20, 100
PARAMETERS = ("club_id", "topic", "reason", "function", "status", "start", "end", "limit", "cursor")
OPEN = "open"
STATUSES = (OPEN, "replayed", "discarded")

# The maximum number of characters of a text, of the payload and of a reason, and the maximum number of headers.
MAX_TEXT, MAX_PAYLOAD, MAX_REASON, MAX_HEADERS = 1_000, 20_000, 500, 100
# The seconds for which a page is read, and those that remain for its response.
_BUDGET_S, _RESERVE_S = 10.0, 5.0


class DeadLetterRow(TypedDict):
    """A record that could not be processed."""

    position: str
    """The position on the dead-letter topic, partition@offset."""
    at: str
    """When the record was dead-lettered."""
    club_id: int | None
    """null: the record has no readable club."""
    topic: str
    """The source topic; partition and offset are the record's position in it."""
    partition: str
    offset: str
    reason: str
    error: str
    """Empty without the scope users:read: an error may quote values of the record."""
    function: str
    replayed_from: str
    """The position of the dead letter of which the record is a replay, or empty."""
    size: int
    """Bytes of the record."""
    status: str
    """open, replayed or discarded"""


class DeadLettersBody(TypedDict):
    """Dead letters, the latest first."""

    rows: list[DeadLetterRow]
    truncated: bool
    """Whether there are earlier letters. A page may have fewer rows than its limit nevertheless."""
    next_cursor: str | None


class DeadLetterHeader(TypedDict):
    name: str
    value: str
    """Empty if the letter is outlined."""


class DeadLetterAction(TypedDict):
    """An earlier operation on a dead letter."""

    status: str
    at: str
    by: str
    detail: str
    """The topic of a replay, or the reason of a discard."""


class DeadLetterBody(TypedDict):
    """A dead letter with its payload."""

    letter: DeadLetterRow
    history: list[DeadLetterAction]
    outlined: bool
    """Whether the letter is shown without its values, to a caller without the scope users:read."""
    key: str | None
    """null: the record has none, or is outlined."""
    headers: list[DeadLetterHeader]
    payload: str | None
    """The decoded record as JSON text, shortened; null if it cannot be decoded. Outlined, it has types such as
    `integer` in place of values, and `*` in place of the keys of a map."""
    payload_error: str | None
    """Why the record cannot be decoded; null: it can, or is outlined."""
    payload_base64: str | None
    """The first bytes of a record that cannot be decoded; null if it is outlined."""
    payload_truncated: bool


class ReplayedBody(TypedDict):
    """A replayed dead letter."""

    position: str
    status: Literal["replayed"]
    topic: str
    """The topic to which the record was produced again."""


class DiscardRequest(TypedDict):
    """The body of a request to discard a dead letter."""

    reason: str
    """Stored with the letter and in the audit log: 1 to 500 characters."""


class DiscardedBody(TypedDict):
    """A discarded dead letter."""

    position: str
    status: Literal["discarded"]
    reason: str


@dataclass(frozen=True)
class DeadLettersRoute:
    store: DeadLetterStore
    codec: Codec

    def answer(
        self, parameters: Mapping[str, list[str]], clubs: Clubs, scopes: AbstractSet[Scope], remaining_s: float
    ) -> DeadLettersBody:
        """Return the page of a query. Raises Problem (400 with each wrong parameter, 403) or Retry."""
        read = Reader(parameters, PARAMETERS)
        club_id = read.single("club_id", parse_club_id)
        wanted = Filter(
            topic=read.single("topic", parse.words),
            reason=read.single("reason", parse.words),
            function=read.single("function", parse.words),
            since=read.single("start", parse.time),
            until=read.single("end", parse.time),
        )
        wanted_status = read.single("status", status)
        limit = read.single("limit", _limit) or DEFAULT_LIMIT
        cursor = read.single("cursor", parse.cursor)
        read.check()
        asked = () if club_id is None else (club_id,)
        chosen = seen(asked, clubs)
        query = (chosen, wanted, wanted_status)
        marks = self.store.marks()
        outlined = not sees_single_users(scopes)

        def row(letter: DeadLetter) -> DeadLetterRow | None:
            if wanted_status not in (None, _status(letter, marks)) or not wanted.takes(letter):
                return None
            club = club_of(letter, self.codec)
            # guard: tenancy.dead_letters
            return _row(letter, club, marks, outlined=outlined) if not chosen or club in chosen else None

        page = self.store.page(
            row,
            before=None if cursor is None else position_in(cursor, query, read, _position),
            limit=limit,
            budget_s=min(_BUDGET_S, remaining_s - _RESERVE_S),
        )
        more = page.before is not None
        return {
            "rows": list(page.rows),
            "truncated": more,
            "next_cursor": encode_cursor(query, page.before) if more else None,
        }

    def open_of(self, clubs: Sequence[int], latest: int) -> int:
        """Return the number of open letters of the given clubs among the latest letters. Raises Retry."""
        marks = self.store.marks()
        # Letters without a mark alone are decoded.
        page = self.store.page(
            lambda letter: _status(letter, marks) == OPEN and club_of(letter, self.codec) in clubs,
            before=None,
            limit=latest,
            budget_s=_BUDGET_S,
        )
        return sum(page.rows)

    def show(
        self,
        position: str,
        parameters: Mapping[str, list[str]],
        clubs: Clubs,
        scopes: AbstractSet[Scope],
        audit: Audit,
    ) -> DeadLetterBody:
        """Return one letter, and audit that its values are read. Raises Problem (400 for any parameter, 404) or
        Retry.
        """
        Reader(parameters).check()
        letter, club_id = self._letter(position, clubs)
        marks = self.store.marks()
        mark = marks.get(letter.position)
        outlined = not sees_single_users(scopes)  # guard: dead_letters.outlined
        payload = payload_of(letter.topic, letter.value, self.codec)
        key, headers = letter.key, letter.headers[:MAX_HEADERS]
        if outlined:
            payload = Payload(value=None if payload.value is None else outline(letter.topic, payload.value))
            key, headers = None, tuple((name, b"") for name, _ in headers)
        else:
            audit(Action.DEAD_LETTER_SHOWN, subject=letter.position, clubs=[club_id])  # guard: dead_letters.audited
        text = (
            None if payload.value is None else visible_json(json.dumps(payload.value, default=str, ensure_ascii=False))
        )
        return {
            "letter": _row(letter, club_id, marks, outlined=outlined),
            "history": [_action(entry) for entry in (mark.history if mark else ())],
            "outlined": outlined,
            "key": None if key is None else _text(key.decode(errors="backslashreplace")),
            "headers": [
                {"name": _text(name), "value": _text(value.decode(errors="backslashreplace"))}
                for name, value in headers
            ],
            "payload": None if text is None else text[:MAX_PAYLOAD],
            "payload_error": None if payload.error is None else _text(payload.error),
            "payload_base64": None if payload.base64 is None else payload.base64[:MAX_PAYLOAD],
            "payload_truncated": len(text or payload.base64 or "") > MAX_PAYLOAD,
        }

    def replay(
        self,
        position: str,
        content: str | None,
        clubs: Clubs,
        principal: str,
        audit: Audit,
        key: str | None = None,
    ) -> tuple[ReplayedBody, bool]:
        """Produce a letter to its source topic, once. Return the response body, and whether an earlier request with the
        idempotency key has done so.

        Raises Problem (400 for content, 404, 409 if it was replayed or discarded before, or if no function consumes
        its source topic) or Retry.
        """
        check_empty(content)
        letter, club_id = self._letter(position, clubs)
        request = _request(f"{letter.position}/replay", {}, principal, key)
        repeated = self._operated(
            Action.DEAD_LETTER_REPLAYED,
            club_id,
            lambda: self.store.replay(letter, operator=principal, request=request),
            audit,
        )
        return {"position": letter.position, "status": "replayed", "topic": letter.topic}, repeated

    def discard(
        self,
        position: str,
        content: str | None,
        clubs: Clubs,
        principal: str,
        audit: Audit,
        key: str | None = None,
    ) -> tuple[DiscardedBody, bool]:
        """Mark a letter as discarded. Return as `replay`. Raises Problem (400 without a reason, 404, 409 as for a
        replay) or Retry.
        """
        reason = _reason(read_fields(content))
        letter, club_id = self._letter(position, clubs)
        request = _request(f"{letter.position}/discard", {"reason": reason}, principal, key)
        repeated = self._operated(
            Action.DEAD_LETTER_DISCARDED,
            club_id,
            lambda: self.store.discard(letter, reason, operator=principal, request=request),
            audit,
            reason,
        )
        return {"position": letter.position, "status": "discarded", "reason": reason}, repeated

    def _letter(self, position: str, clubs: Clubs) -> tuple[DeadLetter, int | None]:
        """Return a letter of the caller's clubs, and its club. Raises Problem with status 404, or Retry."""
        letter = self.store.find(unquote(position))
        if letter is not None:
            club_id = club_of(letter, self.codec)
            # A letter of another club and an unknown letter have the same response.
            if clubs.every or club_id in clubs:  # guard: tenancy.dead_letter
                return letter, club_id
        raise Problem(404, Text.DEAD_LETTER_UNKNOWN.filled())

    def _operated(
        self, action: Action, club_id: int | None, operate: Callable[[], Done], audit: Audit, reason: str = ""
    ) -> bool:
        """Execute and audit an operation. Return whether an earlier attempt of the request has executed it."""
        done = operate()
        if done.repeated:
            return True
        result = Result.OK if done.ok else Result.FAILED
        detail = done.message if not reason else f"{done.message}: {reason}"
        audit(action, subject=done.letter.position, clubs=[club_id], result=result, detail=detail)
        if not done.ok:
            raise Problem(409, Text.DEAD_LETTER_UNCHANGED.filled(reason=done.message))
        return False


_limit = parse.whole_number(1, MAX_LIMIT)


status = parse.choice(STATUSES)


def _position(key: list[Any]) -> int:
    match key:
        case [int() as before] if 0 <= before < 2**63:
            return before
    raise ValueError("not an offset")


def _status(letter: DeadLetter, marks: Mapping[str, Mark]) -> str:
    mark = marks.get(letter.position)
    return mark.kind.value if mark else OPEN


def _row(letter: DeadLetter, club_id: int | None, marks: Mapping[str, Mark], *, outlined: bool) -> DeadLetterRow:
    return {
        "position": letter.position,
        "at": parse.rfc3339(datetime.fromisoformat(letter.dead_at).astimezone(UTC)),
        "club_id": club_id,
        "topic": _text(letter.topic),
        "partition": _text(letter.partition),
        "offset": _text(letter.offset),
        "reason": _text(letter.reason),
        "error": "" if outlined else _text(letter.error),  # guard: dead_letters.error
        "function": _text(letter.function),
        "replayed_from": _text(letter.replayed),
        "size": len(letter.value or b""),
        "status": _status(letter, marks),
    }


def _action(entry: Mapping[str, str]) -> DeadLetterAction:
    detail = entry.get("why", entry.get("to", ""))
    return {
        "status": _text(entry.get("status", "")),
        "at": _text(entry.get("at", "")),
        "by": _text(entry.get("by", "")),
        "detail": _text(detail),
    }


def _reason(fields: Any) -> str:
    """Return the reason in a body. Raises Problem with status 400."""
    errors = unknown_fields(as_object(fields), "reason")
    reason = fields.get("reason")
    if not isinstance(reason, str) or not reason.strip() or len(reason) > MAX_REASON:
        errors.append(FieldError("reason", Text.MUST_BE_TEXT.filled(maximum=MAX_REASON)))
    if errors:
        raise invalid(errors)
    return visible(str(reason).strip())


def _request(path: str, fields: Mapping[str, str], principal: str, key: str | None) -> str:
    """Return the digest of a principal's request under an idempotency key; "" without one."""
    return "" if key is None else digest_of("POST", path, {"fields": fields, "principal": principal, "key": key})


def _text(text: str) -> str:
    return visible(text[:MAX_TEXT])
