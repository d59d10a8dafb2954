"""Errors over HTTP as RFC 9457 problem details, the same for every function behind the gateway."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

CONTENT_TYPE = "application/problem+json"


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one parameter or field.

    field: its name as the caller wrote it (`start`, `to_users[3]`); message: what is wrong and what is allowed.
    """

    field: str
    message: str


class Problem(Exception):
    """Ends a request with problem details.

    status: the HTTP status; detail: one sentence for the person who called; errors: the fields that are wrong;
    title: the status's own phrase where none is given; retry_after_s: seconds until a retry, for 409, 429 and 503.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        """The members type, title, status, detail and, where fields are wrong, errors: [{field, message}]."""
        body: dict[str, Any] = {
            # "about:blank" says by the RFC that the title is all the type there is: no page to keep alive behind a URI.
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [asdict(error) for error in self.errors]
        return body
