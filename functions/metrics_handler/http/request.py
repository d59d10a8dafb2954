"""A request as the use cases need it, and their answers as HTTP has them.

Every answer tells watermark, complete and generated_at in its headers (Masscomm-Watermark …), JSON in its body as well.
The ETag is of the rest: it stays while the numbers do, so a 304 says "still so" and how far counting has come since.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from functions.metrics_handler.http.accept import chosen
from functions.metrics_handler.http.csv import csv_rows
from masscomm.http import rest
from masscomm.http.problem import Problem
from masscomm.http.rest import JSON, Response
from masscomm.http.tenant import Clubs

CSV = "text/csv"

_HEADERS = {
    "watermark": "Masscomm-Watermark",
    "complete": "Masscomm-Complete",
    "generated_at": "Masscomm-Generated-At",
    "next_cursor": "Masscomm-Next-Cursor",
}
# They change while the numbers do not.
_MOVING = ("watermark", "generated_at")


@dataclass(frozen=True)
class Request:
    """What was asked, of what may be seen. media_type: what the answer will be."""

    parameters: Mapping[str, list[str]]
    clubs: Clubs
    media_type: str
    if_none_match: str

    @classmethod
    def of(cls, request: rest.Request, *offered: str) -> "Request":
        """What came over HTTP. Errors: Problem(406) where nothing offered is wanted."""
        media_type = chosen(request.header("accept"), offered)
        if media_type is None:
            raise Problem(406, f"This resource can be had as {' or '.join(offered)}.")
        none_match = request.header("if-none-match") or ""
        return cls(request.parameters, request.clubs, media_type, none_match)

    def answer(self, body: Mapping[str, Any], columns: Sequence[str] = ()) -> Response:
        """200, or 304 where the caller has it. columns: of the body's rows, where CSV was offered."""
        headers = {
            # May be kept, by its caller alone, and is asked for again each time.
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
        still = {name: value for name, value in body.items() if name not in _MOVING}
        digest = hashlib.sha256(json.dumps([self.media_type, still]).encode()).hexdigest()
        # Weak: two answers with it mean the same, and differ in when they were given.
        return f'W/"{digest[:32]}"'


def uncached(body: Mapping[str, Any]) -> Response:
    """200 with what is only true now."""
    return Response(200, JSON, json.dumps(body), {"Cache-Control": "no-store"})


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _matches(if_none_match: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag.removeprefix("W/") in tags
