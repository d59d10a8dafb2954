"""The sources of incoming webhooks: their signatures, and the mapping of their documents to events.

GET, POST /v1/sources                    list those of a club, and create one
GET, PUT, DELETE /v1/sources/{source_id} read, change and delete one

A source of another club and an unknown one have the same response. No response has a secret.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from masscomm.aws.sealed_secrets import SecretBox
from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.event_mapping import EventMapping, InvalidMapping
from masscomm.domain.incoming_messages import DOOR
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.time_limits import SOURCE_SECRET_OVERLAP_S
from masscomm.domain.webhook_sources import (
    MAX_SECRET,
    MAX_SOURCE_CLUBS,
    MAX_SOURCES,
    Encoding,
    Scheme,
    Signature,
    SourceKey,
    WebhookSource,
    is_header,
    is_secret,
    sealing_context,
)
from masscomm.domain.webhooks import MAX_DESCRIPTION
from masscomm.http import parameters as parse
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.webhook_sources.port import WebhookSources
from masscomm.texts import Text

PARAMETERS = ("club_id",)
MAX_MAPPING_BYTES = 20_000
MAX_PREFIX = 20
_RANDOM_BYTES = 32


class SourceFields(TypedDict):
    """A source of incoming webhooks."""

    club_id: int
    """The tenant to which the source belongs."""
    scheme: str
    """How the sender signs: standard (Standard Webhooks), stripe, github, or hmac (HMAC-SHA256 of the body)."""
    mapping: dict[str, Any]
    """For type, club_id and optionally unit, key, occurred_at, event_id and data: a value, or a path in the body."""
    secret: NotRequired[str]
    """The secret of the signatures. Without it, a source that exists keeps its own."""
    club_ids: NotRequired[list[int] | None]
    """The tenants of its events; by default its own, null: every tenant."""
    description: NotRequired[str]
    header: NotRequired[str]
    """Of the scheme hmac: the header with the signature."""
    encoding: NotRequired[str]
    """Of the scheme hmac: hex (the default) or base64."""
    prefix: NotRequired[str]
    """Of the scheme hmac: the text before the signature, such as sha256=."""
    id_header: NotRequired[str]
    """Of the scheme hmac: the header with the id of a webhook, which its repetitions have as well."""


class SourceBody(TypedDict):
    """A source of incoming webhooks, without its secret."""

    id: str
    url: str
    """The address to which the sender posts. Its id is as secret as a password."""
    club_id: int
    scheme: str
    mapping: dict[str, Any]
    club_ids: list[int] | None
    description: str
    header: str
    encoding: str
    prefix: str
    id_header: str


class RefusedWebhookBody(TypedDict):
    """A webhook that became no event."""

    at: str
    """The time of its receipt."""
    reason: str
    detail: str
    """The field of the event and its problem, without a value of the webhook."""


class AcceptedWebhookBody(TypedDict):
    """A webhook that became an event."""

    at: str
    """The time of its receipt."""
    event_id: str
    type: str
    club_id: int


class ShownSourceBody(SourceBody):
    """A source of incoming webhooks, with its last webhooks."""

    accepted: list[AcceptedWebhookBody]
    """The last ten webhooks that became events, the latest first. Of those that are accepted at once, some may be
    missing."""
    refused: int
    """The number of all refused webhooks; 0 after 14 days without one."""
    refusals: list[RefusedWebhookBody]
    """The last 100 of them, the latest first."""


class SourcesBody(TypedDict):
    """The sources of a club."""

    rows: list[SourceBody]


class DeletedSourceBody(TypedDict):
    """A deleted source."""

    id: str
    status: Literal["deleted"]


@dataclass(frozen=True, kw_only=True)
class SourcesRoute:
    store: WebhookSources
    box: SecretBox
    clock: Clock
    # The address of the door, without its path.
    door_url: str

    def of_club(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SourcesBody:
        """Return the sources of a club. Raises Problem (400, 403) or Retry."""
        read = Reader(parameters, PARAMETERS)
        club_id = read.single("club_id", parse.whole_number(1, LARGEST_ID), required=True)
        read.check()
        _check_clubs([club_id or 0], "club_id", clubs)
        return {"rows": [self._body(each, clubs) for each in self.store.of_club(club_id or 0)]}

    def show(self, source_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> ShownSourceBody:
        """Return a source and its last webhooks. Raises Problem (400 for any parameter, 404) or Retry."""
        Reader(parameters).check()
        source = self._visible(source_id, clubs)
        now_s = self.clock.now_ms() // 1000
        found = self.store.refusals(source.key, now_s)
        return {
            **self._body(source, clubs),
            "accepted": [
                {
                    "at": parse.time_of_ms(each.at_ms),
                    "event_id": each.event_id,
                    "type": each.type,
                    "club_id": each.club_id,
                }
                for each in self.store.last_accepted(source.key, now_s)
            ],
            "refused": found.total,
            "refusals": [
                {"at": parse.time_of_ms(each.at_ms), "reason": each.reason, "detail": each.detail}
                for each in found.last
            ],
        }

    def create(self, content: str | None, clubs: Clubs, audit: Audit) -> SourceBody:
        """Store a new source. Raises Problem (400, 403, 409) or Retry."""
        fields = _read(content, clubs, is_new=True)
        key = SourceKey.new(fields["club_id"], secrets.token_bytes(_RANDOM_BYTES))
        if len(self.store.of_club(key.club_id)) >= MAX_SOURCES:
            raise Problem(409, Text.SOURCES_TOO_MANY.filled(maximum=MAX_SOURCES))
        source = _source(key, fields, self._sealed(key, fields["secret"]), None, self.clock.now_ms())
        return self._put(source, clubs, audit, "created")

    def put(self, source_id: str, content: str | None, clubs: Clubs, audit: Audit) -> SourceBody:
        """Change a source. With another secret, the previous one is accepted for a day. Raises Problem (400, 403, 404)
        or Retry.
        """
        before = self._visible(source_id, clubs)
        fields = _read(content, clubs, is_new=False)
        if fields["club_id"] != before.key.club_id:
            raise unusable([FieldError("club_id", Text.SOURCE_OF_OTHER_CLUB.filled(club_id=before.key.club_id))])
        if before.signature.scheme != fields["scheme"] and "secret" not in fields:
            raise unusable([FieldError("secret", Text.MISSING.filled())])
        sealed = self._sealed(before.key, fields["secret"]) if "secret" in fields else None
        return self._put(_source(before.key, fields, sealed, before, self.clock.now_ms()), clubs, audit, "changed")

    def delete(self, source_id: str, clubs: Clubs, audit: Audit) -> DeletedSourceBody:
        """Delete a source. Raises Problem with status 404, or Retry."""
        source = self._visible(source_id, clubs)
        self.store.delete(source.key)
        audit(Action.SOURCE_DELETED, subject=source_id, clubs=[source.key.club_id])
        return {"id": source_id, "status": "deleted"}

    def _put(self, source: WebhookSource, clubs: Clubs, audit: Audit, detail: str) -> SourceBody:
        self.store.put(source)
        audit(Action.SOURCE_STORED, subject=source.key.id, clubs=[source.key.club_id], detail=detail)
        return self._body(source, clubs)

    def _sealed(self, key: SourceKey, secret: str) -> bytes:
        return self.box.seal({"secret": secret}, sealing_context(key.id))

    def _visible(self, source_id: str, clubs: Clubs) -> WebhookSource:
        """Return a source of the caller's clubs. Raises Problem with status 404."""
        key = SourceKey.of_id(source_id)
        # guard: tenancy.source
        found = None if key is None or key.club_id not in clubs else self.store.find([key]).get(key)
        if found is None:
            raise Problem(404, Text.SOURCE_UNKNOWN.filled())
        return found

    def _body(self, source: WebhookSource, clubs: Clubs) -> SourceBody:
        signature, club_ids = source.signature, source.club_ids
        return {
            "id": source.key.id,
            "url": self.door_url + DOOR.format(source=source.key.id),
            "club_id": source.key.club_id,
            "scheme": signature.scheme,
            "mapping": dict(source.mapping),
            # A caller who may see further tenants may have made the source.
            "club_ids": None if club_ids is None else [each for each in club_ids if each in clubs],
            "description": source.description,
            "header": signature.header,
            "encoding": signature.encoding,
            "prefix": signature.prefix,
            "id_header": signature.id_header,
        }


def _source(
    key: SourceKey, fields: Mapping[str, Any], sealed: bytes | None, before: WebhookSource | None, now_ms: int
) -> WebhookSource:
    """Return the source in a request; without a secret, that of the earlier one stays."""
    previous = (None, None) if before is None else (before.previous_sealed, before.previous_until_ms)
    if before is not None and sealed is not None:
        previous = before.sealed, now_ms + round(SOURCE_SECRET_OVERLAP_S * 1000)
    own, club_ids = (key.club_id,), fields.get("club_ids", ())
    return WebhookSource(
        key=key,
        description=fields.get("description", ""),
        signature=Signature(
            scheme=Scheme(fields["scheme"]),
            header=fields.get("header", ""),
            encoding=Encoding(fields.get("encoding", Encoding.HEX)),
            prefix=fields.get("prefix", ""),
            id_header=fields.get("id_header", ""),
        ),
        club_ids=None if club_ids is None else tuple(sorted(set(club_ids))) or own,
        mapping=fields["mapping"],
        sealed=sealed or (b"" if before is None else before.sealed),
        previous_sealed=previous[0],
        previous_until_ms=previous[1],
        created_at_ms=now_ms if before is None else before.created_at_ms,
    )


def _check_clubs(club_ids: list[int], field: str, clubs: Clubs) -> None:
    """Raise Problem with status 403 for clubs that the caller may not see."""
    # guard: tenancy.clubs_of_source
    if others := [str(club_id) for club_id in club_ids if club_id not in clubs]:
        message = Text.CLUBS_NOT_SEEN.filled(clubs=", ".join(others[:100]))
        raise Problem(403, Text.CLUB_NOT_PERMITTED.filled(), errors=[FieldError(field, message)])


def _read(content: str | None, clubs: Clubs, *, is_new: bool) -> Mapping[str, Any]:
    """Return the fields of a request. Raises Problem (400, 403)."""
    fields = read_object(content)
    if errors := [*undefined_fields(fields, SourceFields), *_wrong(fields, is_new=is_new)]:
        raise unusable(errors)
    _check_clubs([fields["club_id"]], "club_id", clubs)
    club_ids = fields.get("club_ids", [])
    if club_ids is None and not clubs.every:
        raise Problem(403, Text.EVERY_CLUB_NEEDED.filled())
    _check_clubs(club_ids or [], "club_ids", clubs)
    return fields


def _wrong(fields: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
    """Return an error for each field that cannot be used."""
    errors: list[FieldError] = []
    if not _is_club(fields.get("club_id")):
        errors.append(FieldError("club_id", Text.MUST_BE_CLUB.filled()))
    club_ids = fields.get("club_ids")
    if club_ids is not None and (
        not isinstance(club_ids, list) or not 1 <= len(club_ids) <= MAX_SOURCE_CLUBS or not all(map(_is_club, club_ids))
    ):
        errors.append(FieldError("club_ids", Text.MUST_BE_CLUB.filled()))
    for name, maximum in (("description", MAX_DESCRIPTION), ("prefix", MAX_PREFIX)):
        found = fields.get(name, "")
        if not isinstance(found, str) or len(found) > maximum:
            errors.append(FieldError(name, Text.MUST_BE_TEXT.filled(maximum=maximum)))
    scheme = fields.get("scheme")
    if scheme not in list(Scheme):
        errors.append(FieldError("scheme", Text.MUST_BE.filled(form=", ".join(Scheme))))
    elif ("secret" in fields or is_new) and not is_secret(Scheme(scheme), fields.get("secret")):
        errors.append(FieldError("secret", Text.SOURCE_KEY_FORM.filled(maximum=MAX_SECRET)))
    if fields.get("encoding", Encoding.HEX) not in list(Encoding):
        errors.append(FieldError("encoding", Text.MUST_BE.filled(form=", ".join(Encoding))))
    required = ("header",) if scheme == Scheme.HMAC else ()
    errors += [
        FieldError(name, Text.HEADER_FORM.filled())
        for name in ("header", "id_header")
        if (fields.get(name, "") != "" or name in required) and not is_header(fields.get(name))
    ]
    mapping = fields.get("mapping")
    try:
        EventMapping.of(mapping)
    except InvalidMapping as error:
        return errors + [
            FieldError(f"mapping.{name}" if name else "mapping", message) for name, message in error.problems
        ]
    if (size := len(json.dumps(mapping).encode())) > MAX_MAPPING_BYTES:
        errors.append(FieldError("mapping", Text.EVENT_DATA_TOO_LARGE.filled(size=size, maximum=MAX_MAPPING_BYTES)))
    return errors


def _is_club(value: object) -> bool:
    return type(value) is int and 1 <= value <= LARGEST_ID
