"""Reads the header Idempotency-Key, and computes the digest by which requests with the same key are compared."""

import json
import re
from hashlib import sha256
from typing import Any

from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.rest import Request
from masscomm.texts import CodedText, Text

KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST_KEY = 255
_VALID = re.compile(rf"[\x20-\x7e]{{1,{LONGEST_KEY}}}")


def key_of(request: Request) -> str | None:
    """Return the idempotency key of a request, or None if it has none. Raises Problem with status 400 if the header
    is invalid.
    """
    values = request.header_values(KEY.lower())
    if not values:
        return None
    if len(values) > 1:
        raise _invalid(Text.GIVEN_TWICE.filled())
    key = values[0].strip()
    if not _VALID.fullmatch(key):
        raise _invalid(Text.KEY_INVALID.filled(maximum=LONGEST_KEY))
    return key


def required_key_of(request: Request) -> str:
    """Return the idempotency key of a request. Raises Problem with status 400 if it has none, or an invalid one."""
    key = key_of(request)
    if key is None:
        raise _invalid(Text.KEY_REQUIRED.filled())
    return key


def key_digest(key: str) -> str:
    """Return the digest of an idempotency key, under which it is stored."""
    return sha256(key.encode()).hexdigest()


def digest_of(method: str, path: str, document: Any) -> str:
    """Return the digest of a request's body. Equal JSON values have the same digest, whatever their order of names
    and white space.
    """
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return sha256(f"{method}\n{path}\n{canonical}".encode()).hexdigest()


def other_request() -> Problem:
    """Return the problem of a request whose idempotency key belongs to another request."""
    errors = [FieldError(KEY, Text.KEY_REUSED.filled())]
    return Problem(422, Text.IDEMPOTENCY_KEY_REUSED.filled(), errors=errors)


def _invalid(message: CodedText) -> Problem:
    return invalid([FieldError(KEY, message)])
