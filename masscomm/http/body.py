"""Reads the JSON body of a request."""

from typing import Any

from masscomm.http.problem import FieldError, Problem
from masscomm.http.texts import Text
from masscomm.json_reader import InvalidJson, read_json


def read_fields(content: str | None) -> Any:
    """Return the JSON value of a body; {} if it is empty. Raises Problem with status 400."""
    try:
        return read_json(content) if content and content.strip() else {}
    except InvalidJson as error:
        problem = "must be a JSON object"
        raise Problem(400, Text.BODY_NOT_JSON.filled(reason=str(error)), errors=[FieldError("", problem)]) from error


def read_object(content: str | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the JSON object in a body, which must not be empty. Raises Problem with status 400.

    Args:
        bounded: As for read_json.
    """
    # API Gateway replaces bytes that are not UTF-8 by this character.
    if "\ufffd" in (content or ""):
        raise Problem(
            400, Text.BODY_NOT_UTF8.filled(), errors=[FieldError("", "must be UTF-8 without the character U+FFFD")]
        )
    errors = [FieldError("", "must be a JSON object")]
    try:
        document = read_json(content or "", bounded=bounded)
    except InvalidJson as error:
        raise Problem(400, Text.BODY_NOT_JSON.filled(reason=str(error)), errors=errors) from error
    if not isinstance(document, dict):
        raise Problem(400, Text.BODY_NOT_AN_OBJECT.filled(), errors=errors)
    return document


def check_empty(content: str | None) -> None:
    """Check that a request has no fields. Raises Problem with status 400."""
    if read_fields(content) != {}:
        raise Problem(400, Text.BODY_NOT_EMPTY.filled(), errors=[FieldError("", "must be empty, or {}")])
