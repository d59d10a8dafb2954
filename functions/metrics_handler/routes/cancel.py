"""POST /v1/sends/{send_id}/cancel: cancel the notifications of a send that are not published yet.

The cancellation is recorded; preference_checker, builder and delivery read it with each batch. Notifications that an
invocation publishes meanwhile count as sent: GET /v1/sends/{send_id} has their number. A repeated request gets the same
response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypedDict

from functions.metrics_handler.http.parameters import Reader, rfc3339
from functions.metrics_handler.routes.send import is_complete, known_send, published
from functions.metrics_handler.store.port import MetricsStore
from masscomm.clock import Clock
from masscomm.domain.audit import Action, audit_entry
from masscomm.http.problem import FieldError, Problem
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs
from masscomm.json_reader import InvalidJson, read_json
from masscomm.observability import logs
from masscomm.stores.audit_log import AuditLog, record_or_log
from masscomm.stores.cancellations import Cancellation, Cancellations, SendKey

logger = logs.logger("metrics_handler")


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
    store: MetricsStore
    cancellations: Cancellations
    clock: Clock
    audit_log: AuditLog

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
        read = Reader(parameters, ())
        if read.errors:
            raise read.problem()
        _check_empty(content)
        send = known_send(self.store, send_id, clubs)
        key = SendKey(send.club_id, send_id)
        cancellation = self.cancellations.find(key)
        if cancellation is None:
            # A send with an invalid id was dead-lettered, so that no notification of it can be published.
            if is_complete(send) or not key.is_valid:  # guard: cancellations.ended_send
                raise Problem(409, "The send has ended: there is nothing to cancel.")
            cancellation = self.cancellations.record(
                Cancellation(send=key, requested_at_ms=self.clock.now_ms(), published_before=published(send))
            )
            entry = audit_entry(
                Action.SEND_CANCELLED,
                club_id=send.club_id,
                at_ms=self.clock.now_ms(),
                principal=principal,
                subject=send_id,
                detail=f"{cancellation.published_before} published before",
            )
            record_or_log(self.audit_log, entry, logger)  # guard: audit.cancelled_send
        return _body(cancellation)


def _check_empty(content: str | None) -> None:
    """Check that a request has no fields. Raises Problem with status 400."""
    try:
        fields = read_json(content) if content and content.strip() else {}
    except InvalidJson as error:
        raise Problem(400, f"the body is not JSON: {error}", errors=[FieldError("", "must be empty")]) from error
    if fields != {}:
        raise Problem(400, "The request has no fields.", errors=[FieldError("", "must be empty, or {}")])


def _body(cancellation: Cancellation) -> CancelBody:
    return {
        "send_id": cancellation.send.send_id,
        "status": "cancelling",
        "requested_at": rfc3339(datetime.fromtimestamp(cancellation.requested_at_ms / 1000, UTC)),
        "published_before": cancellation.published_before,
        "links": {"self": f"/v1/sends/{cancellation.send.send_id}"},
    }
