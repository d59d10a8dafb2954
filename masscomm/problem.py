"""Errors over HTTP as RFC 9457 problem details, the same for every function behind the gateway."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError

from masscomm.errors import Retry, Stop

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
    title: the status's own phrase where none is given; retry_after_s: when to come again, for 409, 429 and 503.
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

    def response(self, headers: Mapping[str, str] | None = None) -> Response[str]:
        """The answer for Powertools' resolver, with Retry-After where it is known."""
        retry = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        return Response(
            status_code=self.status,
            content_type=CONTENT_TYPE,
            body=json.dumps(self.body(), ensure_ascii=False),
            headers={"Cache-Control": "no-store", **retry, **(headers or {})},
        )


def problem_response(
    status: int,
    title: str | None,
    detail: str,
    errors: Sequence[FieldError] = (),
    *,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """An application/problem+json answer without raising; title None: the status's own phrase."""
    return Problem(status, detail, title=title, errors=errors).response(headers)


def answer_problems(app: APIGatewayRestResolver, logger: Logger, *, retry_after_s: int) -> None:
    """Have an API answer whatever its routes raise with problem details.

    Problem as it says; Retry 503 with Retry-After; Stop and everything unforeseen 500, of which the log tells more than
    the caller learns; no such route 404.
    """

    def unavailable(error: Retry) -> Response[str]:
        logger.warning("a dependency is down", error=str(error))
        return Problem(503, str(error), retry_after_s=retry_after_s).response()

    def misconfigured(error: Stop) -> Response[str]:
        logger.error("misconfigured", error=str(error))
        return Problem(500, "the service is misconfigured").response()

    def fault(error: Exception) -> Response[str]:
        logger.error("a request failed in our own code", exc_info=error)
        return Problem(500, "the service failed").response()

    def not_found(_error: NotFoundError) -> Response[str]:
        return Problem(404, "there is no such resource").response()

    app.exception_handler(Problem)(Problem.response)
    app.exception_handler(Retry)(unavailable)
    app.exception_handler(Stop)(misconfigured)
    app.exception_handler(Exception)(fault)
    app.not_found(not_found)
