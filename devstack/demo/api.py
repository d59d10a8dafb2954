"""A client of masscomm's REST API."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from devstack.demo.records import Key


class ApiError(Exception):
    """The API responded with an unexpected status; the message contains the API's own text."""


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


class Api:
    """A client of the REST API with an API key. Every method raises ApiError, or httpx.HTTPError if the gateway does
    not respond.
    """

    def __init__(self, gateway_url: str, key: str | None) -> None:
        headers = {"x-api-key": key} if key else {}
        self._client = httpx.Client(base_url=gateway_url, timeout=30, trust_env=False, headers=headers)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Call a GET route; return the body of its response."""
        return _body(self._client.get(path, params=parameters))

    def post(self, path: str) -> dict[str, Any]:
        """Call a POST route that has no body; return the body of its response."""
        return _body(self._client.post(path))

    def patch(self, path: str, **body: Any) -> dict[str, Any]:
        """Call a PATCH route; return the body of its response."""
        return _body(self._client.patch(path, json=body))

    def send(self, **body: Any) -> str:
        """Call POST /v1/sends; return the id of the new send."""
        answer = self._client.post("/v1/sends", json=body)
        if answer.status_code != httpx.codes.ACCEPTED:
            raise ApiError(f"POST /v1/sends answered {answer.status_code}: {answer.text}")
        return str(answer.json()["send_id"])

    def refused(self, **body: Any) -> tuple[int, list[str]]:
        """Call POST /v1/sends with an invalid body; return the status and the fields that the errors name."""
        answer = self._client.post("/v1/sends", json=body)
        return answer.status_code, [error["field"] for error in answer.json().get("errors", [])]

    def status(self, send_id: str) -> SendStatus | None:
        """Call GET /v1/sends/{send_id}; return the counts of all channels together, or None while the metrics have
        no row of the send.
        """
        answer = self._client.get(f"/v1/sends/{send_id}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.is_error:
            raise ApiError(f"GET /v1/sends/{send_id} answered {answer.status_code}: {answer.text}")
        channels = answer.json()["channels"].values()
        suppressed: Counter[str] = Counter()
        for channel in channels:
            suppressed.update(channel["suppressed"])
        return SendStatus(
            requested=sum(channel["requested"] for channel in channels),
            suppressed=dict(suppressed),
            sent=sum(channel["sent"] for channel in channels),
            failed=sum(sum(channel["failed"].values()) for channel in channels),
            in_flight=sum(channel["in_flight"] for channel in channels),
            delivered=sum(channel["delivered"] for channel in channels),
            bounced=sum(channel["bounced"] for channel in channels),
            held=sum(channel["held"] for channel in channels),
            cancelled=sum(channel["cancelled"] for channel in channels),
        )

    def notifications(self, user_id: int) -> dict[tuple[str, str], str]:
        """Call GET /v1/users/{user_id}/notifications for the latest 1,000; return (send id, channel) → "sent" or the
        reason.
        """
        found = self.get(f"/v1/users/{user_id}/notifications", limit=1_000)
        return {(row["send_id"], row["channel"]): row["reason"] or row["status"] for row in found["rows"]}

    def counts(self, since_ms: int) -> dict[Key, int]:
        """Call GET /v1/metrics; return counts by minute from a minute on (ms since the epoch), for every club, type,
        channel and measure.
        """
        start = datetime.fromtimestamp(since_ms / 1000, UTC)
        found = self.get(
            "/v1/metrics",
            granularity="minute",
            start=start.isoformat(),
            end=(datetime.now(UTC) + timedelta(minutes=1)).isoformat(),
            limit=10_000,
        )
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


def _body(answer: httpx.Response) -> dict[str, Any]:
    """Return the body of a successful response. Raises ApiError with the reason of any other."""
    if answer.is_error:
        raise ApiError(f"{answer.request.method} {answer.url.path} answered {answer.status_code}: {answer.text}")
    body: dict[str, Any] = answer.json()
    return body
