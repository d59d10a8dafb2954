"""Saved audiences: the conditions of an audience under a name of its club.

GET /v1/audiences                      the names of a club's audiences
GET, PUT, DELETE /v1/audiences/{name}  read, save and delete one
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from masscomm.clock import Clock
from masscomm.domain.audit import Action
from masscomm.domain.limits import LARGEST_ID, NAME_PATTERN
from masscomm.domain.saved_audiences import MAX_SAVED_AUDIENCES, RESERVED_NAME, SavedAudience
from masscomm.errors import Retry
from masscomm.http import parameters as parse
from masscomm.http.audiences import audience_of
from masscomm.http.body import read_object, undefined_fields
from masscomm.http.conditions import Conditions, etag_of
from masscomm.http.parameters import Reader
from masscomm.http.problem import FieldError, Problem, unusable
from masscomm.http.tenant import Clubs
from masscomm.stores.audit_log.port import Audit
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.texts import Text

PARAMETERS = ("club_id",)


class SavedAudienceFields(TypedDict):
    """The body of a request to PUT /v1/audiences/{name}."""

    audience: dict[str, Any]
    """The conditions of docs/audiences.md, without `except_users`, which a send names."""


class SavedAudienceRow(TypedDict):
    """A saved audience in a list."""

    name: str
    changed_at: str
    """The time of its last change."""


class SavedAudiencesBody(TypedDict):
    """The saved audiences of a club, in the order of their names."""

    rows: list[SavedAudienceRow]


class SavedAudienceBody(SavedAudienceRow):
    """A saved audience."""

    audience: dict[str, Any]
    """Its conditions, as in a send."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""


class DeletedAudienceBody(TypedDict):
    """A deleted audience."""

    name: str
    status: Literal["deleted"]


@dataclass(frozen=True, kw_only=True)
class AudiencesRoute:
    store: SavedAudiences
    clock: Clock

    def of_club(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SavedAudiencesBody:
        """Return the audiences of a club. Raises Problem (400, 403) or Retry."""
        return {"rows": [_row(each) for each in self.store.of_club(_club(parameters, clubs))]}

    def show(self, name: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> SavedAudienceBody:
        """Return an audience. Raises Problem (400, 403, 404) or Retry."""
        return _body(self._find(_club(parameters, clubs), name))

    def put(
        self,
        name: str,
        parameters: Mapping[str, list[str]],
        content: str | None,
        clubs: Clubs,
        audit: Audit,
        conditions: Conditions,
    ) -> SavedAudienceBody:
        """Save an audience, and return it. Raises Problem (400, 403, 409, 412) or Retry."""
        club_id, definition = _club(parameters, clubs), _read(name, content)
        others = [each for each in self.store.of_club(club_id) if each.name != name]
        if len(others) >= MAX_SAVED_AUDIENCES:
            raise Problem(409, Text.AUDIENCES_TOO_MANY.filled(maximum=MAX_SAVED_AUDIENCES))
        saved = SavedAudience(club_id=club_id, name=name, definition=definition, changed_at_ms=self.clock.now_ms())
        if conditions == Conditions():
            is_new = self.store.put(saved)
        else:
            before = self.store.find(club_id, name)
            if before is not None and before.definition == definition:
                return _body(before)  # A repeated request succeeds, as the first one did.
            conditions.check(None if before is None else _body(before)["etag"])
            if not self.store.put_if(saved, before):
                raise Retry("another request changes the audience at the same time")
            is_new = before is None
        audit(Action.AUDIENCE_SAVED, subject=name, clubs=[club_id], detail="created" if is_new else "changed")
        return _body(saved)

    def delete(
        self, name: str, parameters: Mapping[str, list[str]], clubs: Clubs, audit: Audit, conditions: Conditions
    ) -> DeletedAudienceBody:
        """Delete an audience. Raises Problem (400, 403, 404, 412) or Retry."""
        club_id = _club(parameters, clubs)
        if conditions != Conditions():
            found = self._find(club_id, name)
            conditions.check(_body(found)["etag"])
            if not self.store.delete_if(found):
                raise Retry("another request changes the audience at the same time")
        elif not (_is_name(name) and self.store.delete(club_id, name)):
            raise Problem(404, Text.NAMED_AUDIENCE_UNKNOWN.filled())
        audit(Action.AUDIENCE_DELETED, subject=name, clubs=[club_id])
        return {"name": name, "status": "deleted"}

    def _find(self, club_id: int, name: str) -> SavedAudience:
        found = self.store.find(club_id, name) if _is_name(name) else None
        if found is None:
            raise Problem(404, Text.NAMED_AUDIENCE_UNKNOWN.filled())
        return found


def _club(parameters: Mapping[str, list[str]], clubs: Clubs) -> int:
    """Return the club of a request. Raises Problem (400, 403)."""
    read = Reader(parameters, PARAMETERS)
    club_id = read.single("club_id", parse.whole_number(1, LARGEST_ID), required=True) or 0
    read.check()
    if club_id not in clubs:  # guard: tenancy.saved_audiences
        raise Problem(403, Text.AUDIENCES_NOT_PERMITTED.filled())
    return club_id


def _is_name(name: str) -> bool:
    return re.fullmatch(NAME_PATTERN, name) is not None and name != RESERVED_NAME


def _read(name: str, content: str | None) -> dict[str, Any]:
    """Return the definition in a request. Raises Problem with status 400."""
    fields = read_object(content)
    errors = undefined_fields(fields, SavedAudienceFields)
    if not _is_name(name):
        errors.append(FieldError("name", Text.AUDIENCE_NAME.filled(pattern=NAME_PATTERN, reserved=RESERVED_NAME)))
    audience = fields.get("audience")
    errors += audience_of(audience)[1]
    if isinstance(audience, dict) and "except_users" in audience:  # guard: audiences.saved_users
        errors.append(FieldError("audience.except_users", Text.AUDIENCE_SAVED_USERS.filled()))
    if errors or not isinstance(audience, dict):
        raise unusable(errors)
    return audience


def _row(saved: SavedAudience) -> SavedAudienceRow:
    return {"name": saved.name, "changed_at": parse.time_of_ms(saved.changed_at_ms)}


def _body(saved: SavedAudience) -> SavedAudienceBody:
    audience = dict(saved.definition)
    return {**_row(saved), "audience": audience, "etag": etag_of({**_row(saved), "audience": audience})}
