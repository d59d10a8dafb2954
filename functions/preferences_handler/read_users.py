"""Reads one user, at once or after a change, and pages of a tenant's users. Each reading is audited before it is shown.

GET /v1/users/{user_id}/stream is a long poll that returns once the user has changed:

after   the version of the previous response; a request without it is answered immediately
wait    the maximum wait in seconds, by default 20: the request must end within API Gateway's 29 s

A version is a digest of both bodies about the user, in which the rows have their versions. So a restarted process
continues where another one ended, and each change is seen: of the user, settings, devices and their states, changes
through masscomm, and the suppression of the address.
"""

import hashlib
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypedDict

from functions.preferences_handler.list_users import UsersBody, parse_query, users_body
from functions.preferences_handler.preferences_body import PreferencesBody, preferences_body
from functions.preferences_handler.user_body import UserBody, user_body
from masscomm.clock import Clock
from masscomm.directory.find_person import find_person
from masscomm.directory.person import Person
from masscomm.directory.port import Directory
from masscomm.domain.audit import Action
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader
from masscomm.http.problem import Problem
from masscomm.http.rest import Request
from masscomm.http.tenant import Clubs
from masscomm.observability import logs
from masscomm.operations.waiting import Waiting, parse_wait
from masscomm.stores.audit_log.port import AuditLog, PrincipalAudit
from masscomm.texts import Text

STREAM_PARAMETERS = ("after", "wait")

logger = logs.logger("preferences_handler")


class UserStreamBody(TypedDict):
    """A version of a user."""

    version: str
    """The value of `after` in the next request."""
    changed: bool
    user: UserBody | None
    """The body of GET /v1/users/{user_id}, after a change."""
    preferences: PreferencesBody | None
    """The body of GET /v1/users/{user_id}/preferences, after a change."""


@dataclass(frozen=True, kw_only=True)
class ReadUsers:
    """The use cases. Methods raise Problem (400, 403, 404 for an unknown user and for one of another club, 429), Retry
    or Stop.
    """

    directory: Directory
    audit_log: AuditLog
    clock: Clock
    waiting: Waiting

    def user(self, user_id: int, clubs: Container[object], principal: str) -> UserBody:
        return user_body(self._shown(self._found(user_id, clubs), principal))

    def preferences(self, user_id: int, clubs: Container[object], principal: str) -> PreferencesBody:
        return preferences_body(self._shown(self._found(user_id, clubs), principal))

    def page(self, parameters: Mapping[str, list[str]], clubs: Clubs, principal: str) -> UsersBody:
        query = parse_query(parameters, clubs)
        body = users_body(query, self.directory.list_users(query.club_id, after=query.after, limit=query.limit + 1))
        if rows := body["rows"]:
            subject = f"{rows[0]['user_id']}-{rows[-1]['user_id']}"
            self._audit(Action.USERS_LISTED, principal, query.club_id, subject, f"users: {len(rows)}")
        return body

    def stream(self, user_id: int, request: Request) -> UserStreamBody:
        """Return once the user has another version than the request knows, or when the wait ends."""
        read = Reader(request.parameters, STREAM_PARAMETERS)
        after = read.single("after", parse.cursor)
        wait = read.single("wait", parse_wait)
        read.check()
        person = self.waiting.until(
            lambda each: version_of(each) != after,
            lambda: self._found(user_id, request.clubs),
            wait=wait,
            caller=request.caller,
            remaining_s=request.remaining_s(),
        )
        version = version_of(person)
        if version == after:
            return {"version": version, "changed": False, "user": None, "preferences": None}
        shown = self._shown(person, request.principal)
        return {
            "version": version,
            "changed": True,
            "user": user_body(shown),
            "preferences": preferences_body(shown),
        }

    def _found(self, user_id: int, clubs: Container[object]) -> Person:
        person = find_person(self.directory, user_id, clubs, self.clock.now_ms())
        if person is None:
            raise Problem(404, Text.USER_UNKNOWN.filled())
        return person

    def _shown(self, person: Person, principal: str) -> Person:
        """Return the user once the audit log has the reading."""
        self._audit(Action.USER_SHOWN, principal, person.user.club_id, str(person.user.user_id))  # guard: audit.user
        return person

    def _audit(self, action: Action, principal: str, club_id: int, subject: str, detail: str = "") -> None:
        audit = PrincipalAudit(audit_log=self.audit_log, clock=self.clock, logger=logger, principal=principal)
        audit(action, subject=subject, clubs=[club_id], detail=detail)


def version_of(person: Person) -> str:
    """Return a digest of both bodies about a user."""
    shown = json.dumps([user_body(person), preferences_body(person)], sort_keys=True)
    return hashlib.sha256(shown.encode()).hexdigest()[:32]
