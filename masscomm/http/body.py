"""Reads the JSON body of a request."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from masscomm.http.problem import FieldError, Problem, invalid, not_utf8
from masscomm.json_reader import InvalidJson, UnstorableJson, read_json, unstorable_values
from masscomm.texts import Text, text_of

_NO_OBJECT = FieldError("", Text.MUST_BE_JSON_OBJECT.filled())
# The numbers of fields that a problem lists and of the characters of each, so that its size is limited.
_LISTED, _LONGEST_PLACE = 100, 200
# The characters of the name of a field that a request does not have.
_LONGEST_NAME = 100


def read_fields(content: str | None) -> Any:
    """Return the JSON value of a body; {} if it is empty. Raises Problem with status 400."""
    _check_utf8(content)
    try:
        return read_json(content) if content and content.strip() else {}
    except InvalidJson as error:
        raise _unreadable(content or "", error) from error


def read_object(content: str | None, *, bounded: bool = True) -> dict[str, Any]:
    """Return the JSON object in a body, which must not be empty. Raises Problem with status 400.

    Args:
        bounded: As for read_json.
    """
    _check_utf8(content)
    try:
        document = read_json(content or "", bounded=bounded)
    except InvalidJson as error:
        raise _unreadable(content or "", error) from error
    return as_object(document)


def as_object(document: Any) -> dict[str, Any]:
    """Return a JSON value that must be an object. Raises Problem with status 400."""
    if not isinstance(document, dict):
        raise Problem(400, Text.BODY_NOT_AN_OBJECT.filled(), errors=[_NO_OBJECT])
    return document


def unknown_fields(document: Mapping[str, Any], field: str) -> list[FieldError]:
    """Return the errors of a document that may have one field only."""
    # guard: problems.unknown_fields
    unknown = sorted(document.keys() - {field})[:_LISTED]
    return [FieldError(name[:_LONGEST_PLACE], Text.ONLY_FIELD.filled(field=field)) for name in unknown]


def undefined_fields(fields: Mapping[str, Any], request: Any) -> list[FieldError]:
    """Return an error for each field that a request (a TypedDict) does not have."""
    known = request.__required_keys__ | request.__optional_keys__
    return [FieldError(name[:_LONGEST_NAME], Text.FIELD_UNKNOWN.filled()) for name in fields if name not in known]


def _check_utf8(content: str | None) -> None:
    # API Gateway replaces bytes that are not UTF-8 by this character.
    if "\ufffd" in (content or ""):  # guard: problems.not_utf8
        raise not_utf8()


def _unreadable(content: str, error: InvalidJson) -> Problem:
    """Return the problem for a body that cannot be read. It names the fields whose values no store can hold."""
    if isinstance(error, UnstorableJson):
        with suppress(InvalidJson):
            found = unstorable_values(read_json(content, bounded=False))
            if errors := [FieldError(place[:_LONGEST_PLACE], problem) for place, problem in islice(found, _LISTED)]:
                return invalid(errors)
    return Problem(400, Text.BODY_NOT_JSON.filled(reason=text_of(error)), errors=[_NO_OBJECT])


def check_empty(content: str | None) -> None:
    """Check that a request has no fields. Raises Problem with status 400."""
    if read_fields(content) != {}:
        raise Problem(400, Text.BODY_NOT_EMPTY.filled(), errors=[FieldError("", Text.MUST_BE_EMPTY.filled(empty="{}"))])
