"""Conditional changes: a change is refused if another request has changed the resource since its caller read it.

Source: RFC 9110, "HTTP Semantics", sections 8.8.3 (ETag) and 13.1 (If-Match, If-None-Match).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masscomm.http.problem import Problem
from masscomm.http.rest import Request, Response, uncached
from masscomm.texts import Text


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The conditions of a change."""

    # The entity tags of which the resource must have one; None: it may have any, or be absent.
    if_match: str | None = None
    # The entity tags of which the resource may have none; `*`: it must be absent.
    if_none_match: str | None = None

    @classmethod
    def of(cls, request: Request) -> "Conditions":
        return cls(if_match=request.header("if-match"), if_none_match=request.header("if-none-match"))

    def check(self, etag: str | None) -> None:
        """Check the conditions. Raises Problem with status 412.

        Args:
            etag: The entity tag of the resource; None: it does not exist.
        """
        # guard: conditions.changed_resource
        if self.if_match is not None and (etag is None or not _matches(self.if_match, etag)):
            raise Problem(412, Text.CHANGED_SINCE_READ.filled())
        # guard: conditions.existing_resource
        if self.if_none_match is not None and etag is not None and _matches(self.if_none_match, etag):
            raise Problem(412, Text.EXISTS_ALREADY.filled())


def etag_of(body: Mapping[str, Any]) -> str:
    """Return the entity tag of a resource: a digest of its body."""
    return f'"{digest_of(body)}"'


def digest_of(value: Any) -> str:
    """Return the digest of a JSON value for its entity tag."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def tagged(body: Mapping[str, Any]) -> Response:
    """Return the response with a resource, whose member `etag` becomes the header."""
    response = uncached(body)
    return Response(response.status, response.content_type, response.body, {**response.headers, "ETag": body["etag"]})


def _matches(header: str, etag: str) -> bool:
    """Return whether the value of a condition names an entity tag, or every one."""
    tags = [tag.strip() for tag in header.split(",")]
    return "*" in tags or etag in tags
