"""GET /v1/keys: the API keys of the caller's clubs (tenants), the latest first. POST /v1/keys: create one.
POST /v1/keys/{key_id}/rotate and POST /v1/keys/{key_id}/revoke: replace or end one.

A caller sees the keys whose clubs it may see, all of them. It creates and rotates keys within its own authority: no
other club or scope, no higher limit and no later end than its own key has. Otherwise a key with the scope `admin` could
give itself every other scope.

A repeated request with the same Idempotency-Key makes no second key. Its response has the same key without the text,
which is stored nowhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from masscomm.clock import Clock
from masscomm.domain.key_limits import LIMITS
from masscomm.http import parameters as parse
from masscomm.http.body import as_object, check_empty, read_fields, undefined_fields, unknown_fields
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.idempotency import digest_of, other_request
from masscomm.http.parameters import Reader, rfc3339
from masscomm.http.problem import FieldError, Problem, invalid, unusable
from masscomm.http.rate_limits import maximum_of
from masscomm.http.rest import Request
from masscomm.http.scopes import DEFAULT_SCOPES, Scope, scopes_text
from masscomm.http.tenant import Clubs
from masscomm.operations import keys as management
from masscomm.operations.keys import EVERY_CLUB, KeyEndsFirst, KeyHasEnded, MadeAlready, NewKey, clubs_in
from masscomm.stores.api_keys.port import (
    LIMIT_SETTINGS,
    LIVE,
    TEST,
    ApiKey,
    KeyRequest,
    KeyStore,
    MadeBefore,
    Position,
    request_id,
)
from masscomm.stores.audit_log.port import Audit
from masscomm.texts import CodedText, Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
DEFAULT_HOURS, MAX_HOURS = 24, 720
PARAMETERS = ("limit", "cursor")

MAX_NAME, MAX_CLUBS, MAX_NUMBER = 100, 1_000, 1_000_000_000


class KeyRow(TypedDict):
    """An API key without its secret text."""

    id: str
    name: str
    clubs: list[int] | None
    """null: every club."""
    scopes: list[str]
    mode: str
    """live, or test: the key sends to simulator recipients only."""
    created_at: str
    expires_at: str | None
    """null: without an end."""
    last_used_at: str | None
    """At most a minute late."""
    requests_a_minute: int | None
    recipients_a_day: int | None


class KeysBody(TypedDict):
    """API keys, the latest first."""

    rows: list[KeyRow]
    truncated: bool
    """Whether there are more keys."""
    next_cursor: str | None


class CreateKeyRequest(TypedDict):
    """The body of a request to create an API key."""

    name: str
    """For people: the system that uses the key. 1 to 100 characters."""
    clubs: list[int] | None
    """The clubs of the key; null: every club."""
    scopes: NotRequired[list[Scope]]
    """Without any, read."""
    mode: NotRequired[Literal["live", "test"]]
    expires_at: NotRequired[str | None]
    """The end of the key, in RFC 3339 with an offset."""
    requests_a_minute: NotRequired[int | None]
    recipients_a_day: NotRequired[int | None]


class NewKeyBody(TypedDict):
    """A new API key. Its text is in no later response."""

    key: str | None
    """The secret text of the key, shown only now; null in the response to a repeated request with the same
    Idempotency-Key. If the first response is lost, rotate the key."""
    sha256: str
    """The digest of the text, which is the value of the key in API Gateway's usage plan."""
    properties: KeyRow


class Made(NamedTuple):
    """The response to a request that makes a key."""

    body: NewKeyBody
    # Whether an earlier request with the same Idempotency-Key has made the key.
    replayed: bool


class RotateKeyRequest(TypedDict):
    """The body of a request to rotate an API key."""

    hours: NotRequired[int]
    """The previous key is valid for this time: 0 to 720, by default 24."""


class RevokedKeyBody(TypedDict):
    """A revoked API key."""

    id: str
    status: Literal["revoked"]
    expires_at: str


@dataclass(frozen=True)
class Caller:
    """The authority of a request."""

    clubs: Clubs
    scopes: frozenset[Scope]
    # Limit → its maximum; limits without a maximum are missing.
    limits: Mapping[str, int]
    principal: str
    # The principal with whose use these limits are counted.
    counted_under: str = ""

    @classmethod
    def of(cls, request: Request) -> "Caller":
        maxima = {kind.setting: maximum_of(request.authorizer, kind) for kind in LIMITS}
        limits = {name: maximum for name, maximum in maxima.items() if maximum is not None}
        return cls(request.clubs, request.scopes, limits, request.principal, request.counted_under)

    @property
    def maker(self) -> str | None:
        """Return the principal under which the keys that the caller makes are counted; None if it has no limit."""
        return (self.counted_under or self.principal) if self.limits else None

    def sees(self, key: ApiKey) -> bool:
        return self.sees_clubs(key.clubs)

    def sees_clubs(self, text: str) -> bool:
        """Return whether the caller may see a key with these clubs: all of them."""
        clubs = clubs_in(text)
        return self.clubs.every or (bool(clubs.ids) and clubs.ids <= self.clubs.ids)


@dataclass(frozen=True)
class KeysRoute:
    keys: KeyStore
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]], caller: Caller) -> KeysBody:
        """Return a page of keys. Raises Problem with status 400, or Retry."""
        read = Reader(parameters, PARAMETERS)
        limit = read.single("limit", _limit) or DEFAULT_LIMIT
        cursor = read.single("cursor", parse.cursor)
        read.check()
        before = None if cursor is None else position_in(cursor, "keys", read, _position)
        page = self.keys.page(caller.sees_clubs, before=before, limit=limit)
        return {
            "rows": [_row(key) for key in page.keys],
            "truncated": page.next is not None,
            "next_cursor": None if page.next is None else encode_cursor("keys", *page.next),
        }

    def create(self, content: str | None, caller: Caller, audit: Audit, key: str | None = None) -> Made:
        """Store a new key. `key` is the Idempotency-Key. Raises Problem (400 with each wrong field, 403 beyond the
        caller's authority, 422 if the Idempotency-Key belongs to another request) or Retry.
        """
        fields = read_fields(content)
        made = replace(_parsed(fields, self._now_s()), counted_under=caller.maker)
        self._check_authority(made, caller)
        once = self._once("/v1/keys", fields, caller, key)
        try:
            return _new(management.create(self.keys, made, audit, once=once))
        except MadeAlready as already:
            return self._replayed(already.before, once)

    def rotate(self, key_id: str, content: str | None, caller: Caller, audit: Audit, key: str | None = None) -> Made:
        """Store a new key in place of another one. `key` is the Idempotency-Key. Raises Problem (400, 403, 404, 409 for
        a key that has ended or ends within the hours, 422 if the Idempotency-Key belongs to another request) or Retry.
        """
        fields = read_fields(content)
        hours = _hours(fields)
        previous = self._visible(key_id, caller)
        self._check_authority(previous, caller)
        now_s, once = self._now_s(), self._once(f"/v1/keys/{key_id}/rotate", fields, caller, key)
        try:
            return _new(
                management.rotate(
                    self.keys, previous, now_s=now_s, hours=hours, audit=audit, once=once, maker=caller.maker
                )
            )
        except MadeAlready as already:
            return self._replayed(already.before, once)
        except KeyHasEnded as error:
            raise Problem(409, Text.KEY_ENDED.filled()) from error
        except KeyEndsFirst as error:
            raise Problem(409, Text.KEY_ENDS_FIRST.filled(end=_time(error.end), hours=hours)) from error

    def revoke(self, key_id: str, content: str | None, caller: Caller, audit: Audit) -> RevokedKeyBody:
        """End a key. A repeated request has the same response. Raises Problem (400, 404) or Retry."""
        check_empty(content)
        key = self._visible(key_id, caller)
        now_s = self._now_s()
        end = key.expires_at
        if end is None or end > now_s:
            end = management.revoke(self.keys, key, now_s=now_s, audit=audit)
        return {"id": key.key_id, "status": "revoked", "expires_at": _time(end)}

    def _once(self, path: str, fields: Any, caller: Caller, key: str | None) -> KeyRequest | None:
        """Return the request with an Idempotency-Key, which belongs to the caller's principal; None without one."""
        if key is None:
            return None
        digest = digest_of("POST", path, fields)
        return KeyRequest(id=request_id(caller.principal, key), request=digest, at_s=self._now_s())

    def _replayed(self, before: MadeBefore, once: KeyRequest | None) -> Made:
        """Return the response to a repeated request: the key as it is now. Raises Problem with status 422 or 409."""
        if once is None or before.request != once.request:  # guard: api_keys.other_request
            raise other_request()
        made = self.keys.find(before.digest)
        if made is None:
            raise Problem(409, Text.KEY_OF_REQUEST_ENDED.filled())
        return Made({"key": None, "sha256": made.digest, "properties": _row(made)}, replayed=True)

    def _visible(self, key_id: str, caller: Caller) -> ApiKey:
        """Return the key with this id. Raises Problem with status 404, or Retry."""
        key = self.keys.find_by_id(key_id)
        # A key of other clubs and an unknown key have the same response.
        if key is None or not caller.sees(key):  # guard: tenancy.api_keys
            raise Problem(404, Text.KEY_UNKNOWN.filled())
        return key

    def _check_authority(self, key: ApiKey, caller: Caller) -> None:
        """Check that a key has no more authority than the caller, whose own key may be stored. Raises Problem with
        status 403, or Retry.
        """
        own = self.keys.find_by_id(caller.principal)
        errors = list(_beyond(key, caller, None if own is None else own.expires_at))
        if errors:  # guard: api_keys.authority_of_the_caller
            raise Problem(403, Text.KEY_BEYOND_CALLER.filled(), errors=errors)

    def _now_s(self) -> int:
        return self.clock.now_ms() // 1000


_limit = parse.whole_number(1, MAX_LIMIT)


def _beyond(key: ApiKey, caller: Caller, end: int | None) -> Iterable[FieldError]:
    """Yield the properties of a key that exceed the caller's."""
    if not caller.sees(key):
        yield FieldError("clubs", Text.KEY_CLUBS_BEYOND.filled())
    if missing := set(key.scopes.split()) - caller.scopes:
        yield FieldError("scopes", Text.KEY_SCOPES_BEYOND.filled(scopes=", ".join(sorted(missing))))
    for name, maximum in caller.limits.items():
        value = getattr(key, name)
        if value is None or value > maximum:
            yield FieldError(name, Text.KEY_LIMIT_BEYOND.filled(maximum=maximum))
    if end is not None and (key.expires_at is None or key.expires_at > end):
        yield FieldError("expires_at", Text.KEY_END_BEYOND.filled(end=_time(end)))


def _parsed(fields: Any, now_s: int) -> ApiKey:
    """Return the key in a body, without a digest. Raises Problem with status 400 and each wrong field."""
    fields = as_object(fields)
    errors = undefined_fields(fields, CreateKeyRequest)

    def refuse(name: str, message: CodedText) -> None:
        errors.append(FieldError(name, message))

    name = fields.get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        refuse("name", Text.MUST_BE_PRINTABLE.filled(maximum=MAX_NAME))
        name = ""
    clubs = EVERY_CLUB
    if "clubs" not in fields:
        refuse("clubs", Text.KEY_CLUBS_MISSING.filled())
    elif (ids := fields["clubs"]) is not None:
        if _is_club_list(ids):
            clubs = ",".join(str(each) for each in sorted(set(ids)))
        else:
            refuse("clubs", Text.KEY_CLUBS_FORM.filled(maximum=MAX_CLUBS))
    scopes = fields.get("scopes", [])
    if not isinstance(scopes, list) or not all(isinstance(each, str) and each in set(Scope) for each in scopes):
        refuse("scopes", Text.MUST_BE_LIST_OF.filled(choices=", ".join(Scope)))
        scopes = []
    mode = fields.get("mode", LIVE)
    if mode not in (LIVE, TEST):
        refuse("mode", Text.MUST_BE_EITHER.filled(first=LIVE, second=TEST))
    expires_at = None
    if fields.get("expires_at") is not None:
        try:
            expires_at = int(parse.time(fields["expires_at"]).timestamp())
        except (TypeError, ValueError):
            refuse("expires_at", Text.MUST_BE.filled(form=parse.time.form))
        else:
            if expires_at <= now_s:
                refuse("expires_at", Text.MUST_LIE_AHEAD.filled())
    for setting in LIMIT_SETTINGS:
        value = fields.get(setting)
        if value is not None and not _is_number(value, 1, MAX_NUMBER):
            refuse(setting, Text.MUST_BE.filled(form=Text.FORM_NUMBER.filled(lowest=1, highest=MAX_NUMBER)))
    if errors:
        raise unusable(errors)
    return ApiKey(
        digest="",
        name=name,
        clubs=clubs,
        scopes=scopes_text(set(scopes) or DEFAULT_SCOPES),
        created_at=now_s,
        expires_at=expires_at,
        mode=mode,
        requests_a_minute=fields.get("requests_a_minute"),
        recipients_a_day=fields.get("recipients_a_day"),
    )


def _hours(fields: Any) -> int:
    """Return the hours in a body. Raises Problem with status 400."""
    errors = unknown_fields(as_object(fields), "hours")
    hours: Any = fields.get("hours", DEFAULT_HOURS)
    if not _is_number(hours, 0, MAX_HOURS):
        message = Text.MUST_BE.filled(form=Text.FORM_NUMBER.filled(lowest=0, highest=MAX_HOURS))
        errors.append(FieldError("hours", message))
    if errors:
        raise invalid(errors)
    return int(hours)


def _is_club_list(value: Any) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= MAX_CLUBS
        and all(_is_number(each, 1, 2**63 - 1) for each in value)
    )


def _is_number(value: Any, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _position(key: list[Any]) -> Position:
    match key:
        case [int() as created_at, str() as key_id] if 0 <= created_at < 10**12 and len(key_id) <= MAX_NAME:
            return Position(created_at, key_id)
    raise ValueError("not a key")


def _new(new: NewKey) -> Made:
    return Made({"key": new.text, "sha256": new.key.digest, "properties": _row(new.key)}, replayed=False)


def _row(key: ApiKey) -> KeyRow:
    return {
        "id": key.key_id,
        "name": key.name,
        "clubs": None if key.clubs == EVERY_CLUB else sorted(clubs_in(key.clubs).ids),
        "scopes": key.scopes.split(),
        "mode": key.mode,
        "created_at": _time(key.created_at),
        "expires_at": None if key.expires_at is None else _time(key.expires_at),
        "last_used_at": None if key.last_used_at is None else _time(key.last_used_at),
        "requests_a_minute": key.requests_a_minute,
        "recipients_a_day": key.recipients_a_day,
    }


def _time(at_s: int) -> str:
    return rfc3339(datetime.fromtimestamp(at_s, UTC))
