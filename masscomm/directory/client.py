"""A client for the part of OpenSearch's REST API that the functions use.

opensearch-py has the same methods, but with it a function's first answer takes 0.32 s of the processor instead of 0.21:
it imports an asynchronous client and two HTTP libraries that the functions do not use. An mget of 100 documents takes
0.73 ms of the processor instead of 0.56 (docs/decisions/058-own-clients.md). The names are those of opensearch-py, so
that each client can replace the other.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from masscomm import fast_json
from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.pooled_http import PooledHttp
from masscomm.domain.time_limits import OPENSEARCH_REQUEST_S

type Auth = Callable[[str, str, Mapping[str, str], bytes | None], dict[str, str]]
type Params = Mapping[str, Any]


class OpenSearchError(Exception):
    """The base class of the client's errors."""


class ConnectionError(OpenSearchError):
    """There was no response: the connection was refused or cut, or the request timed out."""


class SerializationError(OpenSearchError):
    """The response is not JSON."""


class TransportError(OpenSearchError):
    """The response has an error status.

    Args:
        status_code: The HTTP status.
        error: OpenSearch's error type.
        info: The whole response.
    """

    def __init__(self, status_code: int, error: str, info: Any = None) -> None:
        super().__init__(status_code, error, info)
        self.status_code = status_code
        self.error = error
        self.info = info

    def __str__(self) -> str:
        return f"{self.status_code}, {self.error}: {json.dumps(self.info, ensure_ascii=False)[:500]}"


class AuthenticationException(TransportError):
    """OpenSearch responded with 401."""


class AuthorizationException(TransportError):
    """OpenSearch responded with 403."""


class NotFoundError(TransportError):
    """OpenSearch responded with 404."""


class ConflictError(TransportError):
    """OpenSearch responded with 409."""


_BY_STATUS = {
    401: AuthenticationException,
    403: AuthorizationException,
    404: NotFoundError,
    409: ConflictError,
}


class OpenSearch:
    """A client that connects at its first request and does not retry. Thread-safe.

    Every method raises the subclasses of OpenSearchError.

    Args:
        url: The address of OpenSearch.
        timeout_s: The time limit of one request in seconds, connecting included.
        auth: Returns the signed headers of a request (method, URL, headers, body).
        connections: The number of connections that stay open.
    """

    def __init__(
        self, url: str, *, timeout_s: float = OPENSEARCH_REQUEST_S, auth: Auth | None = None, connections: int = 4
    ) -> None:
        self._url = url.rstrip("/")
        self._path = urlsplit(self._url).path
        self._auth = auth
        self._http = PooledHttp(
            self._url, connect_s=timeout_s, read_s=timeout_s, total_s=timeout_s, connections=connections
        )
        self.indices = Indices(self)

    def request(self, method: str, path: str, body: Any = None, params: Params | None = None) -> Any:
        """Send a request and return the JSON value of the response.

        Args:
            method: The HTTP method.
            path: The quoted path, without its first slash.
            body: A value that is sent as JSON, or the bytes of several JSON lines.
            params: The query parameters.
        """
        target = f"/{path}" + (f"?{urlencode(_texts(params))}" if params else "")
        lines = isinstance(body, bytes)
        content = body if lines or body is None else fast_json.encoded(body)
        headers = {"content-type": "application/x-ndjson" if lines else "application/json"}
        if self._auth is not None:
            headers = self._auth(method, self._url + target, headers, content)
        try:
            status, response = self._http.request(method, self._path + target, headers, content or b"")
        except (NotSent, AnswerLost) as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        try:
            # A document with half of a surrogate pair must not make the look-up of other documents fail.
            answer = fast_json.parsed(response)
        except ValueError as error:
            if status >= 400:  # The response may be a proxy's error page.
                raise _refusal(status, response[:200].decode(errors="replace")) from error
            raise SerializationError(f"{status} and no JSON") from error
        if status >= 400:
            raise _refusal(status, answer)
        return answer

    def mget(self, *, body: Mapping[str, Any], index: str | None = None) -> Any:
        return self.request("POST", "_mget" if index is None else f"{_quoted(index)}/_mget", body)

    def search(self, *, index: str | None = None, body: Mapping[str, Any], **params: Any) -> Any:
        """Search an index. Without one, the body names a point in time of it."""
        return self.request("POST", "_search" if index is None else f"{_quoted(index)}/_search", body, params)

    def create_pit(self, *, index: str, params: Params) -> Any:
        """Create a point in time: searches of it read the index as it is now."""
        return self.request("POST", f"{_quoted(index)}/_search/point_in_time", params=params)

    def delete_pit(self, *, body: Mapping[str, Any]) -> Any:
        return self.request("DELETE", "_search/point_in_time", body)

    def bulk(self, *, body: bytes) -> Any:
        """Write several documents; the body has two lines for each."""
        return self.request("POST", "_bulk", body)

    def get(self, *, index: str, id: str) -> Any:
        """Return one document. Raises NotFoundError if it does not exist."""
        return self.request("GET", f"{_quoted(index)}/_doc/{_quoted(id)}")

    def index(self, *, index: str, id: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        """Write one document. Raises ConflictError if a condition in `params` does not hold."""
        return self.request("PUT", f"{_quoted(index)}/_doc/{_quoted(id)}", body, params)

    def delete_by_query(self, *, index: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        return self.request("POST", f"{_quoted(index)}/_delete_by_query", body, params)

    def close(self) -> None:
        self._http.close()


class Indices:
    """Requests that concern whole indices and aliases."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def refresh(self, *, index: str | None = None) -> Any:
        """Make written documents visible to searches, in one index or (None) in all."""
        return self._client.request("POST", "_refresh" if index is None else f"{_quoted(index)}/_refresh")

    def get_alias(self, *, name: str) -> Any:
        """Return the indices of aliases. Raises NotFoundError if an alias is missing; the error's `info` has the
        others.
        """
        return self._client.request("GET", f"_alias/{_quoted(name)}")

    def update_aliases(self, *, body: Mapping[str, Any]) -> Any:
        """Change several aliases atomically."""
        return self._client.request("POST", "_aliases", body)


def _refusal(status: int, answer: Any) -> TransportError:
    error = answer.get("error") if isinstance(answer, dict) else answer
    kind = error.get("type", "") if isinstance(error, dict) else str(error or "")
    return _BY_STATUS.get(status, TransportError)(status, kind, answer)


def _quoted(name: str) -> str:
    return quote(name, safe=",*-_.~")


def _texts(params: Params) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
