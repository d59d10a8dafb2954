"""Reads the audience in a request: conditions, or the name of a saved audience."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from masscomm.domain.audiences import Audience, read_audience
from masscomm.domain.limits import NAME_PATTERN
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.http.problem import FieldError, unusable
from masscomm.texts import Text

# The audience is a part of one record on the topic audience.
MAX_BYTES = 400_000
_EXCEPT = "except_users"


def audience_of(value: Any) -> tuple[Audience, list[FieldError]]:
    """Return the audience in the field `audience` of a request, and its errors. With errors, it must not be used. A
    saved audience is replaced by its definition before (`resolved`).
    """
    audience, errors = read_audience(value)
    if not errors and len(json.dumps(value)) > MAX_BYTES:
        return audience, [FieldError("audience", Text.AUDIENCE_TOO_LARGE.filled(maximum=MAX_BYTES))]
    return audience, [
        FieldError(f"audience.{error.path}" if error.path else "audience", error.message) for error in errors
    ]


def is_saved(value: Any) -> bool:
    """Return whether the field `audience` of a request names a saved audience."""
    return isinstance(value, Mapping) and "saved" in value


def audience_errors(value: Any) -> list[FieldError]:
    """Return the errors of the field `audience` of a request, before the definition of a saved audience is known."""
    if not is_saved(value):
        return audience_of(value)[1]
    errors = []
    if not isinstance(value["saved"], str) or not re.fullmatch(NAME_PATTERN, value["saved"]):
        errors.append(FieldError("audience.saved", Text.TEXT_PATTERN.filled(pattern=NAME_PATTERN)))
    if value.keys() & {"where", "follows", "all_users"}:
        errors.append(FieldError("audience.saved", Text.AUDIENCE_EMPTY.filled()))
    others = {name: each for name, each in value.items() if name not in ("saved", "where", "follows", "all_users")}
    return errors + audience_of({"all_users": True, **others})[1]


def resolved(
    value: Mapping[str, Any], club_id: int, find: Callable[[int, str], SavedAudience | None]
) -> Mapping[str, Any]:
    """Return an audience with the definition of the saved audience that it names; another one as it is.

    Args:
        value: The audience, without `audience_errors`.
        club_id: Its club, which the caller may see.
        find: Returns the saved audience of a club with a name.

    Raises:
        Problem: With status 400, if the club has no such audience, or its definition is no longer valid.
        Retry, Stop: From `find`.
    """
    if not is_saved(value):
        return value
    found = find(club_id, value["saved"])
    if found is None:
        raise unusable([FieldError("audience.saved", Text.AUDIENCE_UNKNOWN.filled())])
    audience = {**found.definition, **({_EXCEPT: value[_EXCEPT]} if _EXCEPT in value else {})}
    # The attributes of users, or the categories, may have changed since it was saved.
    if errors := audience_of(audience)[1]:
        raise unusable(errors)
    return audience
