"""The error of the client. Connection errors and time-outs are those of httpx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from .types import FieldErrorBody


class ApiError(Exception):
    """The API refused a request, or could not execute it in any attempt.

    Attributes:
        status: The HTTP status.
        detail: One sentence, as the API returned it.
        errors: The invalid fields.
        retry_after_s: The seconds after which the request may succeed; None if the response has none.
    """

    def __init__(
        self, status: int, detail: str, errors: list[FieldErrorBody], retry_after_s: float | None = None
    ) -> None:
        # guard: client.reasons_of_errors
        reasons = [(each.get("field", ""), each.get("message", "")) for each in errors]
        # The detail of a request with one wrong field has both.
        further = [f"{field} {why}".strip() for field, why in reasons if field not in detail or why not in detail]
        super().__init__(f"{status}: {'; '.join([detail, *further])}")
        self.status = status
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s

    @classmethod
    def of(cls, response: httpx.Response) -> ApiError:
        """Return the error in a response."""
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {"detail": response.text[:500]}
        detail = str(problem.get("detail", response.reason_phrase))
        return cls(response.status_code, detail, problem.get("errors", []), retry_after_s(response))


def retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds in Retry-After; None if the response has none."""
    given = response.headers.get("Retry-After", "")
    return float(given) if given.isdecimal() else None
