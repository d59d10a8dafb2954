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


def check_empty(content: str | None) -> None:
    """Check that a request has no fields. Raises Problem with status 400."""
    if read_fields(content) != {}:
        raise Problem(400, "The request has no fields.", errors=[FieldError("", "must be empty, or {}")])
