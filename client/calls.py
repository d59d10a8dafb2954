"""The requests of the client and their repetition, without input and output: both clients execute the same steps."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

import httpx

from .errors import ApiError

KEY = "Idempotency-Key"
# Statuses after which the same request may succeed.
_PASSING = frozenset({409, 429, 500, 502, 503, 504})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0


@dataclass(frozen=True)
class Call[Body]:
    """One request, typed with the body of its response.

    Every request may be repeated: a send has an idempotency key, others change nothing twice.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of httpx' `request`."""
        query = {name: value for name, value in self.query.items() if value is not None}
        return {
            "method": self.method,
            "url": self.path,
            "params": query,
            "headers": dict(self.headers),
            "json": self.body,
        }


class Page[Row](TypedDict):
    """What the client reads of a page; the rows are those of the route."""

    rows: list[Row]
    next_cursor: str | None


@dataclass(frozen=True)
class Listing[Row]:
    """The requests of a list that is read page by page."""

    path: str
    filters: Mapping[str, Any]

    def page(self, cursor: str | None) -> Call[Page[Row]]:
        return Call("GET", self.path, {**self.filters, "cursor": cursor})


@dataclass(frozen=True)
class Pause:
    seconds: float


# Yields requests and pauses, takes the response or the error of each request, and returns the body.
type Steps[Body] = Generator[Call[Body] | Pause, httpx.Response | httpx.TransportError | None, Body]


def execute[Body](call: Call[Body], attempts: int) -> Steps[Body]:
    """Yield the steps of a call until it succeeds. A repetition has the same Idempotency-Key.

    Raises ApiError, or httpx.TransportError if the last attempt got no response.
    """
    for attempt in range(1, attempts + 1):
        answer = yield call
        if isinstance(answer, httpx.Response) and answer.is_success:
            body: Body = answer.json()
            return body
        error = answer if isinstance(answer, httpx.TransportError) else None
        if isinstance(answer, httpx.Response) and not _may_pass(call, answer):
            raise ApiError.of(answer)
        if attempt < attempts:
            yield Pause(_pause_s(attempt, answer))
        elif error is not None:
            raise error
        elif isinstance(answer, httpx.Response):
            raise ApiError.of(answer)
    raise ValueError("attempts must be at least 1")


def key_headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"x-api-key": key}


def _may_pass(call: Call[Any], response: httpx.Response) -> bool:
    """Return whether the same request may succeed later. A conflict (409) passes if it says when."""
    is_final = response.status_code == 409 and (KEY not in call.headers or "Retry-After" not in response.headers)
    return response.status_code in _PASSING and not is_final


def _pause_s(attempt: int, answer: object) -> float:
    """Return the pause before the next attempt: Retry-After, else a random time that doubles its bound."""
    given = answer.headers.get("Retry-After", "") if isinstance(answer, httpx.Response) else ""
    if given.isdecimal():
        return min(float(given), _LONGEST_PAUSE_S)
    return random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311 - no secret
