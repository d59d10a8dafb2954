"""Reads the audience in a request."""

import json
from typing import Any

from masscomm.domain.audiences import Audience, read_audience
from masscomm.http.problem import FieldError
from masscomm.texts import Text

# The audience is a part of one record on the topic audience.
MAX_BYTES = 400_000


def audience_of(value: Any) -> tuple[Audience, list[FieldError]]:
    """Return the audience in the field `audience` of a request, and its errors. With errors, it must not be used."""
    audience, errors = read_audience(value)
    if not errors and len(json.dumps(value)) > MAX_BYTES:
        return audience, [FieldError("audience", Text.AUDIENCE_TOO_LARGE.filled(maximum=MAX_BYTES))]
    return audience, [
        FieldError(f"audience.{error.path}" if error.path else "audience", error.message) for error in errors
    ]
