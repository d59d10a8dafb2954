"""PATCH /v1/sends/{send_id}: move a scheduled send to another time, or change the pace of a send.

The new time replaces the send_at of the send's records: preference_checker reads it with each batch, and the scheduler
releases the records that wait for the previous time, so that they are delayed until the new one. A repeated request
gets the same response, even after the new time.

A new pace replaces that of the send's records for every later decision. The scheduler releases the records that wait
for their minute, so that they are planned anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from functions.sends_api.routes.controllable import Control
from masscomm.domain.audit import Action
from masscomm.domain.delays import SEND_AT
from masscomm.domain.limits import MAX_REQUEST_AHEAD_MS
from masscomm.domain.pace import MAX_PER_MINUTE
from masscomm.domain.sends import Send, SendKey, controlled
from masscomm.domain.time_limits import RESCHEDULE_MARGIN_S
from masscomm.http import parameters as parse
from masscomm.http.body import as_object, read_fields, unknown_fields
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.texts import CodedText, Text


class RescheduleRequest(TypedDict):
    """The body of a request to move a scheduled send, or to change the pace of a send: one of the two."""

    send_at: NotRequired[str]
    """The new time, in RFC 3339 with an offset."""
    per_minute: NotRequired[int]
    """The most recipients that are released in a minute from now on, of a send with a pace."""


class RescheduleBody(TypedDict):
    """A send after its move, or after the change of its pace."""

    send_id: str
    status: Literal["scheduled", "paced"]
    send_at: str | None
    """Null after a change of the pace."""
    per_minute: int | None
    """Null after a move."""
    links: Links


@dataclass(frozen=True)
class RescheduleRoute:
    control: Control

    def answer(
        self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs, content: str | None, principal: str = ""
    ) -> RescheduleBody:
        """Record the new time or pace, and return the response body.

        Raises Problem (400 for an invalid body, 404, 409 for a send that is not scheduled or has no pace, is cancelled,
        or is released already or within seconds) or Retry.
        """
        fields = as_object(read_fields(content))
        if "per_minute" in fields:
            return self._paced(send_id, _per_minute(fields), parameters, clubs, principal)
        send_at_ms = round(_send_at(fields).timestamp() * 1000)
        known = self.control.send(send_id, parameters, clubs)
        if known.send.control.send_at_ms == send_at_ms:  # guard: send_controls.repeated_move
            self.control.check_not_cancelled(known.send)
            return _body(send_id, send_at_ms)
        if self.control.has_ended(known):
            raise Problem(409, Text.SEND_ENDED.filled())
        self._check_time(send_at_ms, known.send.expires_at_ms)
        first_ms = known.send.send_at_ms if known.send.is_known else self._stored_send_at_ms(known.key)

        def moved(send: Send) -> Send:
            self.control.check_not_cancelled(send)
            previous_ms = first_ms if send.control.send_at_ms is None else send.control.send_at_ms
            if previous_ms is None:
                raise Problem(409, Text.SEND_NOT_SCHEDULED.filled())
            # guard: send_controls.released_send
            if previous_ms < self.control.clock.now_ms() + RESCHEDULE_MARGIN_S * 1000:
                raise Problem(409, Text.SEND_RELEASED.filled(send_at=time_of_ms(previous_ms)))
            return controlled(send, send_at_ms=send_at_ms)

        self.control.release_records(known.key)
        self.control.change(known, moved)
        self.control.audit(Action.SEND_MOVED, known.key, principal, detail=time_of_ms(send_at_ms))
        return _body(send_id, send_at_ms)

    def _paced(
        self, send_id: str, per_minute: int, parameters: Mapping[str, list[str]], clubs: Clubs, principal: str
    ) -> RescheduleBody:
        known = self.control.send(send_id, parameters, clubs)

        def paced(send: Send) -> Send:
            self.control.check_not_cancelled(send)
            if not send.is_paced:
                raise Problem(409, Text.SEND_NOT_PACED.filled())
            if send.control.per_minute == per_minute:
                return send
            return controlled(send, per_minute=per_minute, pace_revision=send.control.revision + 1)

        if paced(known.send) != known.send:
            if self.control.has_ended(known):
                raise Problem(409, Text.SEND_ENDED.filled())
            self.control.release_records(known.key)  # guard: pace.released_to_be_planned
            self.control.change(known, paced)
            self.control.audit(Action.SEND_PACED, known.key, principal, detail=f"{per_minute} a minute")
        return _body(send_id, None, per_minute)

    def _check_time(self, send_at_ms: int, expires_at_ms: int | None) -> None:
        if not self.control.clock.now_ms() < send_at_ms <= self.control.clock.now_ms() + MAX_REQUEST_AHEAD_MS:
            problem = Text.TIME_TOO_FAR.filled(days=MAX_REQUEST_AHEAD_MS // 86_400_000)
        elif expires_at_ms is not None and expires_at_ms <= send_at_ms:
            problem = Text.SEND_AT_AFTER_KNOWN_END.filled(expires_at=time_of_ms(expires_at_ms))
        else:
            return
        raise _invalid(problem)

    def _stored_send_at_ms(self, key: SendKey) -> int | None:
        """Return the time for which the records of a send wait whose item has expired."""
        waiting = self.control.delay_store.of_send(key, SEND_AT)
        return next((item.due_ms for item in waiting if isinstance(item, DelayedRecord)), None)


def _body(send_id: str, send_at_ms: int | None, per_minute: int | None = None) -> RescheduleBody:
    return {
        "send_id": send_id,
        "status": "scheduled" if per_minute is None else "paced",
        "send_at": None if send_at_ms is None else time_of_ms(send_at_ms),
        "per_minute": per_minute,
        "links": {"self": f"/v1/sends/{send_id}"},
    }


def _per_minute(fields: Mapping[str, Any]) -> int:
    """Return the pace in a body. Raises Problem with status 400."""
    errors = unknown_fields(fields, "per_minute")
    per_minute = fields["per_minute"]
    if type(per_minute) is not int or not 1 <= per_minute <= MAX_PER_MINUTE:
        message = Text.MUST_BE.filled(form=f"a whole number from 1 to {MAX_PER_MINUTE}")
        raise invalid([FieldError("per_minute", message), *errors])
    if errors:
        raise invalid(errors)
    return per_minute


def _send_at(fields: Mapping[str, Any]) -> datetime:
    """Return the time in a body. Raises Problem with status 400."""
    errors = unknown_fields(fields, "send_at")
    try:
        send_at = parse.time(fields["send_at"])
    except (KeyError, TypeError, ValueError) as error:
        raise invalid([FieldError("send_at", Text.MUST_BE.filled(form=parse.time.form)), *errors]) from error
    if errors:
        raise invalid(errors)
    return send_at


def _invalid(problem: CodedText) -> Problem:
    return invalid([FieldError("send_at", problem)])
