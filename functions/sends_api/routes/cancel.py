"""POST /v1/sends/{send_id}/cancel: cancel the notifications of a send that are not published yet.

The cancellation is recorded; preference_checker, builder and delivery read it with each batch, and the scheduler
releases the send's delayed records, so that they end, too. Notifications that an
invocation publishes meanwhile count as sent: GET /v1/sends/{send_id} has their number. A repeated request gets the same
response.
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


class CancelBody(TypedDict):
    """The recorded cancellation of a send."""

    send_id: str
    status: Literal["cancelling"]
    requested_at: str
    published_before: int | None
    """Notifications that were counted as published at the request; null if the counts were unknown."""
    links: Links


@dataclass(frozen=True)
class CancelRoute:
    control: Control

    def answer(
        self,
        send_id: str,
        parameters: Mapping[str, list[str]],
        clubs: Clubs,
        content: str | None,
        principal: str = "",
    ) -> CancelBody:
        """Record the cancellation and return the response body.

        Raises Problem (400 for a parameter or content, 404, 409 for a send that has ended) or Retry.
        """
        check_empty(content)
        known = self.control.send(send_id, parameters, clubs)
        now_ms, before = self.control.clock.now_ms(), published_so_far(known)

        def cancelled(send: Send) -> Send:
            if send.control.cancelled:
                return send
            return controlled(send, cancelled_at_ms=now_ms, published_before=before)

        if not known.send.control.cancelled:
            # The e-mails of a tenant are no send: a cancellation is never withdrawn.
            # guard: cancellations.ended_send
            if is_pause(known.key) or self.control.has_ended(known):
                raise Problem(409, Text.SEND_ENDED_NO_CANCEL.filled())
            self.control.release_records(known.key)
        send = self.control.change(known, cancelled)
        # A repeated request is no action.
        if not known.send.control.cancelled and send.control.cancelled_at_ms == now_ms:
            detail = "an unknown number" if before is None else str(before)
            self.control.audit(Action.SEND_CANCELLED, known.key, principal, detail=f"{detail} published before")
        return {
            "send_id": send_id,
            "status": "cancelling",
            "requested_at": time_of_ms(send.control.cancelled_at_ms or now_ms),
            "published_before": send.control.published_before,
            "links": {"self": f"/v1/sends/{send_id}"},
        }
