"""Converts HTTP requests for the use cases, and the results of use cases to HTTP responses.

Every response has watermark, complete and generated_at in its headers (Masscomm-Watermark …), and in a JSON body. The
ETag does not depend on watermark and generated_at, so that it changes only with the counts. A 304 response still has
the new headers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from masscomm.http import rest
from masscomm.http.accept import negotiated
from masscomm.http.conditions import digest_of
from masscomm.http.csv import csv_rows
from masscomm.http.rest import JSON, Response
from masscomm.http.tenant import Clubs

CSV = "text/csv"

_HEADERS = {
    "watermark": "Masscomm-Watermark",
    "complete": "Masscomm-Complete",
    "generated_at": "Masscomm-Generated-At",
    "next_cursor": "Masscomm-Next-Cursor",
}
# Fields of the response that change although the counts do not.
MOVING = ("watermark", "generated_at")


@dataclass(frozen=True)
class ReadRequest:
    """A request with its parameters and the clubs that the caller may read."""

    parameters: Mapping[str, list[str]]
    # The clubs (tenants) that the caller may read.
    clubs: Clubs
    # The media type of the response.
    media_type: str
    if_none_match: str

    @classmethod
    def of(cls, request: rest.Request, *offered: str) -> "ReadRequest":
        """Return the converted HTTP request. Raises Problem with status 406 if the caller accepts no offered media
        type.
        """
        media_type = negotiated(request.header("accept"), *offered)
        none_match = request.header("if-none-match") or ""
        return cls(request.parameters, request.clubs, media_type, none_match)

    def answer(self, body: Mapping[str, Any], columns: Sequence[str] = ()) -> Response:
        """Return a response with status 200, or 304 if the caller already has this version. `columns` are the
        columns of the rows in CSV.
        """
        headers = {
            # Only the caller may cache the response, and it must revalidate the response each time.
            "Cache-Control": "private, no-cache",
            "Vary": "Accept, Authorization",
            "ETag": self._etag(body),
        }
        headers |= {header: _text(body[name]) for name, header in _HEADERS.items() if body.get(name) is not None}
        if cursor := body.get("next_cursor"):
            query = urlencode({**self.parameters, "cursor": [cursor]}, doseq=True)
            headers["Link"] = f'<?{query}>; rel="next"'
        if _matches(self.if_none_match, headers["ETag"]):
            return Response(304, headers=headers)
        if self.media_type == CSV:
            return Response(200, f"{CSV}; charset=utf-8; header=present", csv_rows(columns, body["rows"]), headers)
        return Response(200, JSON, json.dumps(body), headers)

    def _etag(self, body: Mapping[str, Any]) -> str:
        still = {name: value for name, value in body.items() if name not in MOVING}
        # The ETag is weak: responses with the same ETag have equal counts but different times.
        return f'W/"{digest_of([self.media_type, still])}"'


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _matches(if_none_match: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag.removeprefix("W/") in tags
