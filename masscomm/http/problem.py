"""Errors over HTTP as RFC 9457 problem details, the same for every function behind the gateway."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import NotRequired

from masscomm.domain.limits import MAX_RECIPIENTS
from masscomm.texts import CodedBody, CodedText, Text

CONTENT_TYPE = "application/problem+json"

# The largest event of Lambda, which contains the body. Source: AWS documentation, "Lambda quotas": synchronous request.
MAX_REQUEST_MB = 6


@dataclass(frozen=True)
class FieldError:
    """The error of one parameter or field in a request."""

    # The field as the caller wrote it (`start`, `to_users[3]`).
    field: str
    # The text of the error, with the permitted values.
    message: CodedText

    def body(self) -> "FieldErrorBody":
        return {"field": self.field, "message": self.message, **self.message.body()}


class FieldErrorBody(CodedBody):
    field: str
    """The name as in the request, such as `to_users[3]`."""
    message: str


class ProblemBody(CodedBody):
    """Problem details (RFC 9457). Code, parameters and texts are those of the detail."""

    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldErrorBody]]


class Problem(Exception):
    """An error that ends a request with problem details.

    Args:
        status: The HTTP status.
        detail: One sentence for the caller.
        title: The short title, by default the standard phrase of the HTTP status.
        errors: The invalid fields.
        retry_after_s: Seconds after which the caller may retry, for 409, 429 and 503.
        headers: Further headers of the response.
    """

    def __init__(
        self,
        status: int,
        detail: CodedText,
        *,
        title: str | None = None,
        errors: Sequence[FieldError] = (),
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        self.headers = dict(headers or {})

    def body(self) -> ProblemBody:
        """Return the JSON members of the problem, and for invalid fields errors: [{field, message}]."""
        body: ProblemBody = {
            # In the RFC, "about:blank" means that the type has no more meaning than the title, so that no documentation
            # page is needed.
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [error.body() for error in self.errors]
        return {**body, **self.detail.body()}


def request_too_large() -> CodedText:
    """Return the text for a request that API Gateway or Lambda refuses by its size."""
    return Text.REQUEST_TOO_LARGE.filled(megabytes=MAX_REQUEST_MB, recipients=MAX_RECIPIENTS)


def not_utf8() -> Problem:
    """Return the problem of a body that is not UTF-8 text."""
    return Problem(400, Text.BODY_NOT_UTF8.filled(), errors=[FieldError("", Text.MUST_BE_UTF8.filled())])


def unusable(errors: Sequence[FieldError]) -> Problem:
    """Return the problem with status 400 that names each invalid field; its detail lists the fields."""
    names = ", ".join(dict.fromkeys(error.field for error in errors))
    return Problem(400, Text.FIELDS_INVALID.filled(fields=names), errors=errors)


def invalid(errors: Sequence[FieldError]) -> Problem:
    """Return the problem with status 400 that names each invalid field; its detail is the first error."""
    first = errors[0]
    if not first.field:
        return Problem(400, first.message, errors=errors)
    return Problem(400, Text.FIELD_INVALID.filled(field=first.field, reason=first.message), errors=errors)
