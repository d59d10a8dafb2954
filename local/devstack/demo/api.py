"""A client of masscomm's REST API that summarises responses for the demo and the fault cells."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from local.devstack.demo.records import Key
from masscomm_client import ApiError, Client


@dataclass(frozen=True)
class SendStatus:
    """The counts of a send's notifications, summed over all channels."""

    requested: int
    suppressed: dict[str, int]  # The number of suppressed notifications by reason.
    # The number of notifications that the provider accepted and for which no receipt has arrived.
    sent: int
    failed: int
    in_flight: int
    delivered: int = 0
    bounced: int = 0
    held: int = 0
    cancelled: int = 0


class Api(Client):
    """A client that makes one attempt of each request. Every method raises ApiError, or httpx.HTTPError if the gateway
    does not respond.
    """

    def __init__(self, gateway_url: str, key: str) -> None:
        super().__init__(gateway_url, key=key, attempts=1)

    def refused(self, **body: Any) -> tuple[int, list[str]]:
        """Request an invalid send; return the status and the fields that the errors name."""
        try:
            accepted = self.send(**body)
        except ApiError as error:
            return error.status, [each["field"] for each in error.errors]
        raise AssertionError(f"the invalid send {accepted['send_id']} was accepted")

    def status(self, send_id: str) -> SendStatus | None:
        """Return the counts of all channels together, or None while the metrics have no row of the send."""
        try:
            totals = self.get_send(send_id)["totals"]
        except ApiError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise
        if totals is None:  # The counts cannot be read now.
            return None
        return SendStatus(
            requested=totals["requested"],
            suppressed=totals["suppressed"],
            sent=totals["sent"],
            failed=sum(totals["failed"].values()),
            in_flight=totals["in_flight"],
            delivered=totals["delivered"],
            bounced=totals["bounced"],
            held=totals["held"],
            cancelled=totals["cancelled"],
        )

    def fates(self, user_id: int) -> dict[tuple[str, str], str]:
        """Return (send id, channel) → "sent" or the reason, for the notifications of a user."""
        rows = self.user_notifications(user_id, limit=1_000)
        return {(row["send_id"], row["channel"]): row["reason"] or row["status"] for row in rows}

    def counts(self, since_ms: int) -> dict[Key, int]:
        """Return counts by minute from a minute on (ms since the epoch), for every club, type, channel and measure."""
        start = datetime.fromtimestamp(since_ms / 1000, UTC)
        end = datetime.now(UTC) + timedelta(minutes=1)
        found = self.metrics(granularity="minute", start=start.isoformat(), end=end.isoformat(), limit=10_000)
        return {
            (
                round(datetime.fromisoformat(row["bucket"]).timestamp() * 1000),
                row["club_id"],
                row["type"],
                row["channel"],
                row["measure"],
            ): row["count_total"]
            for row in found["rows"]
        }
