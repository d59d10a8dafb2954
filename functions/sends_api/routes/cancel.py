"""POST /v1/sends/{send_id}/cancel: cancel the notifications of a send that are not published yet.

The cancellation is recorded; preference_checker, builder and delivery read it with each batch, and the scheduler
releases the send's delayed records, so that they end, too. Notifications that an
invocation publishes meanwhile count as sent: GET /v1/sends/{send_id} has their number. A repeated request gets the same
response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from functions.sends_api.routes.controllable import Control
from masscomm.domain.audit import Action
from masscomm.http.body import check_empty
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs
from masscomm.stores.send_controls import Cancellation
from masscomm.texts import Text


class CancelBody(TypedDict):
    """The recorded cancellation of a send."""

    send_id: str
    status: Literal["cancelling"]
    requested_at: str
    published_before: int
    """Notifications that were counted as published at the request."""
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
        send = self.control.send(send_id, parameters, clubs)
        cancellation = self.control.controls.find(send.key)
        if cancellation is None:
            if send.has_ended:  # guard: cancellations.ended_send
                raise Problem(409, Text.SEND_ENDED_NO_CANCEL.filled())
            self.control.release_records(send.key)
            cancellation = self.control.controls.record(
                Cancellation(
                    send=send.key, requested_at_ms=self.control.clock.now_ms(), published_before=send.published
                )
            )
            self.control.audit(
                Action.SEND_CANCELLED, send, principal, detail=f"{cancellation.published_before} published before"
            )
        return _body(cancellation)


def _body(cancellation: Cancellation) -> CancelBody:
    return {
        "send_id": cancellation.send.send_id,
        "status": "cancelling",
        "requested_at": time_of_ms(cancellation.requested_at_ms),
        "published_before": cancellation.published_before,
        "links": {"self": f"/v1/sends/{cancellation.send.send_id}"},
    }
