"""POST /v1/sends/{send_id}/pause and /resume: hold the notifications of a send that are not published yet, and continue
with them.

preference_checker and delivery hold the records of a paused send in the delay store; the scheduler releases them after
the end of the pause. A repeated request gets the same response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from functions.sends_api.routes.controllable import Control, published_so_far
from masscomm.domain.audit import Action
from masscomm.domain.email_pauses import is_pause
from masscomm.domain.sends import Send, controlled
from masscomm.http.body import check_empty
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs
from masscomm.texts import Text


class PauseBody(TypedDict):
    """The pause of a send."""

    send_id: str
    status: Literal["paused"]
    paused_at: str
    published_before: int | None
    """Notifications that are counted as published now; null if the counts are unknown."""
    links: Links


class ResumeBody(TypedDict):
    """The end of a send's pause."""

    send_id: str
    status: Literal["resumed"]
    resumed_at: str
    links: Links


@dataclass(frozen=True)
class PauseRoute:
    control: Control

    def answer(
        self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs, content: str | None, principal: str = ""
    ) -> PauseBody:
        """Record the pause and return the response body.

        Raises Problem (400 for a parameter or content, 404, 409 for a send that has ended or is cancelled) or Retry.
        """
        check_empty(content)
        known = self.control.send(send_id, parameters, clubs)
        if self.control.has_ended(known):  # guard: send_controls.pause_of_an_ended_send
            raise Problem(409, Text.SEND_ENDED_NO_PAUSE.filled())

        def paused(send: Send) -> Send:
            self.control.check_not_cancelled(send)
            return send if send.control.paused_at_ms is not None else controlled(send, paused_at_ms=now_ms)

        now_ms = self.control.clock.now_ms()
        stored = self.control.change(known, paused).control
        if stored.paused_at_ms == now_ms:  # A repeated request is no action.
            self.control.audit(Action.SEND_PAUSED, known.key, principal)
        return {
            "send_id": send_id,
            "status": "paused",
            "paused_at": time_of_ms(stored.paused_at_ms or now_ms),
            "published_before": published_so_far(known),
            "links": {"self": f"/v1/sends/{send_id}"},
        }


@dataclass(frozen=True)
class ResumeRoute:
    control: Control

    def answer(
        self, send_id: str, parameters: Mapping[str, list[str]], clubs: Clubs, content: str | None, principal: str = ""
    ) -> ResumeBody:
        """Record the end of the pause and return the response body.

        Raises Problem (400 for a parameter or content, 404, 409 for a send that is cancelled or was never paused) or
        Retry.
        """
        check_empty(content)
        known = self.control.send(send_id, parameters, clubs)
        if not known.key.is_valid:
            raise Problem(409, Text.SEND_NOT_PAUSED.filled())

        def resumed(send: Send) -> Send:
            # A pause of the e-mails of a tenant cancels nothing at its limit.
            if not is_pause(send.key):  # guard: email_pauses.resumed_late
                self.control.check_not_cancelled(send)
            if send.control.paused_at_ms is not None:
                return controlled(send, paused_at_ms=None, resumed_at_ms=now_ms)
            if send.control.resumed_at_ms is None:
                raise Problem(409, Text.SEND_NOT_PAUSED.filled())
            return send

        now_ms = self.control.clock.now_ms()
        self.control.release_records(known.key)
        stored = self.control.change(known, resumed).control
        if stored.resumed_at_ms == now_ms:  # A repeated request is no action.
            self.control.audit(Action.SEND_RESUMED, known.key, principal)
        return {
            "send_id": send_id,
            "status": "resumed",
            "resumed_at": time_of_ms(stored.resumed_at_ms or now_ms),
            "links": {"self": f"/v1/sends/{send_id}"},
        }
