"""The requests of the client and their repetition, without input and output: both clients execute the same steps."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict
from urllib.parse import quote
from uuid import uuid4

import httpx

from .errors import ApiError, retry_after_s

KEY = "Idempotency-Key"
# Errors before a request can have reached the API.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Statuses after which the same request may succeed.
_PASSING = frozenset({409, 429, 500, 502, 503, 504})
# The seconds in which a send that is followed may be unknown: those until a send by Kafka is counted.
UNKNOWN_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0


@dataclass(frozen=True)
class Call[Body]:
    """One request, typed with the body of its response.

    Every request may be repeated: requests that would act twice have an idempotency key.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # The body if the subject is unknown after an attempt that may have removed it from its list: a deleted endpoint, a
    # device that is no longer disabled.
    removed: Body | None = None

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
class Pause:
    seconds: float


# Yields requests and pauses, takes the response or the error of each request, and returns the body.
type Steps[Body] = Generator[Call[Body] | Pause, httpx.Response | httpx.TransportError | None, Body]


def execute[Body](call: Call[Body], attempts: int) -> Steps[Body]:
    """Yield the steps of a call until it succeeds. A repetition has the same Idempotency-Key.

    Raises ApiError, or httpx.TransportError if the last attempt got no response.
    """
    may_have_acted = False
    for attempt in range(1, attempts + 1):
        answer = yield call
        if isinstance(answer, httpx.Response) and answer.is_success:
            body: Body = answer.json()
            return body
        # guard: client.removed_before
        if call.removed is not None and may_have_acted and _is_unknown(answer):
            return call.removed
        may_have_acted = may_have_acted or _may_have_acted(answer)
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


def may_become_known(error: ApiError, waited_s: float, unknown_s: float) -> bool:
    """Return whether a send that is unknown after some seconds may be counted soon."""
    # guard: client.unknown_send
    return error.status == httpx.codes.NOT_FOUND and waited_s <= unknown_s


def once[Body](path: str, body: Mapping[str, Any], key: str | None) -> Call[Body]:
    """Return a POST with an idempotency key of its own unless one is given."""
    return Call("POST", path, body=dict(body), headers={KEY: key or str(uuid4())})


def conditions(if_match: str | None, if_none_match: str | None) -> dict[str, str]:
    """Return the headers with the conditions of a change."""
    headers = {"If-Match": if_match, "If-None-Match": if_none_match}
    return {name: value for name, value in headers.items() if value is not None}


def path_of(*parts: object) -> str:
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def key_headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"x-api-key": key}


def _may_pass(call: Call[Any], response: httpx.Response) -> bool:
    """Return whether the same request may succeed soon. A conflict (409) passes if it says when."""
    is_final = response.status_code == 409 and (KEY not in call.headers or "Retry-After" not in response.headers)
    return response.status_code in _PASSING and not is_final and (retry_after_s(response) or 0) <= _LONGEST_PAUSE_S


def _may_have_acted(answer: object) -> bool:
    """Return whether a request without a successful response may have had its effect."""
    if isinstance(answer, httpx.Response):
        return answer.is_server_error
    return not isinstance(answer, _NOT_SENT)


def _is_unknown(answer: object) -> bool:
    return isinstance(answer, httpx.Response) and answer.status_code == httpx.codes.NOT_FOUND


def _pause_s(attempt: int, answer: object) -> float:
    """Return the pause before the next attempt: Retry-After, else a random time that doubles its bound."""
    given = retry_after_s(answer) if isinstance(answer, httpx.Response) else None
    if given is not None:
        return given
    return random.uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))  # noqa: S311 - no secret
