"""Reads the JSON body of a request."""

from typing import Any

from masscomm.http.problem import FieldError, Problem
from masscomm.json_reader import InvalidJson, read_json


def read_fields(content: str | None) -> Any:
    """Return the JSON value of a body; {} if it is empty. Raises Problem with status 400."""
    try:
        return read_json(content) if content and content.strip() else {}
    except InvalidJson as error:
        problem = "must be a JSON object"
        raise Problem(400, f"the body is not JSON: {error}", errors=[FieldError("", problem)]) from error


def read_object(content: str | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the JSON object in a body, which must not be empty. Raises Problem with status 400.

    Args:
        bounded: As for read_json.
    """
    # API Gateway replaces bytes that are not UTF-8 by this character.
    if "\ufffd" in (content or ""):
        raise Problem(
            400, "the body is not UTF-8 text", errors=[FieldError("", "must be UTF-8 without the character U+FFFD")]
        )
    errors = [FieldError("", "must be a JSON object")]
    try:
        document = read_json(content or "", bounded=bounded)
    except InvalidJson as error:
        raise Problem(400, f"the body is not JSON: {error}", errors=errors) from error
    if not isinstance(document, dict):
        raise Problem(400, "the body is not a JSON object", errors=errors)
    return document


def check_empty(content: str | None) -> None:
    """Check that a request has no fields. Raises Problem with status 400."""
    if read_fields(content) != {}:
        raise Problem(400, "The request has no fields.", errors=[FieldError("", "must be empty, or {}")])
