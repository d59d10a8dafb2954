"""A check of Schemathesis: a refusal of data that fits the schema names the fields.

Rules across fields are in no schema, so that such data may be refused.
"""

from http import HTTPStatus
from typing import Any

import schemathesis
from schemathesis.checks import CheckContext

from masscomm.http.problem import CONTENT_TYPE

# Statuses that concern the data of a request. Others concern the caller, the state of an object or the load.
_OF_DATA = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})


@schemathesis.check
def refused_data_names_fields(
    _context: CheckContext, response: schemathesis.Response, case: "schemathesis.Case[Any]"
) -> bool | None:
    """Check that a refusal of valid data has errors, each with a field and a message."""
    if response.status_code not in _OF_DATA or case.meta is None or not case.meta.generation.mode.is_positive:
        return None
    # The refusals of unsubscribe links are pages for people.
    if response.headers["content-type"][0].partition(";")[0] != CONTENT_TYPE:
        return None
    body = response.json()
    errors = body.get("errors")
    assert errors, f"no errors: {body}"
    # A request may have a member whose name is empty.
    given = [each for each in (case.body, case.query) if isinstance(each, dict)]
    is_name = any("" in each for each in given)
    unnamed = [error for error in errors if not ((error.get("field") or is_name) and error.get("message"))]
    assert unnamed == [], f"errors without their fields: {unnamed}"
    return None
