"""A client for the part of OpenSearch's REST API that the functions use, over urllib3.

opensearch-py has these methods, too, but its import takes longer than all other imports of a function together
(docs/decisions/058-own-clients.md): it imports an asynchronous client and two HTTP libraries that the functions do not
use. The names are those of opensearch-py, so that each client can replace the other.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from masscomm.aws.request import NOTHING_UNSIGNED

type Auth = Callable[[str, str, Mapping[str, str], bytes | None], dict[str, str]]
type Params = Mapping[str, Any]


class OpenSearchError(Exception):
    """The base class of the client's errors."""


class ConnectionError(OpenSearchError):
    """No answer: the connection was refused or cut, or timed out."""


class SerializationError(OpenSearchError):
    """An answer that is not JSON."""


class TransportError(OpenSearchError):
    """An answer with an error status.

    Args:
        status_code: The HTTP status.
        error: OpenSearch's type of the error.
        info: The whole answer.
    """

    def __init__(self, status_code: int, error: str, info: Any = None) -> None:
        super().__init__(status_code, error, info)
        self.status_code = status_code
        self.error = error
        self.info = info

    def __str__(self) -> str:
        return f"{self.status_code}, {self.error}: {json.dumps(self.info, ensure_ascii=False)[:500]}"


class AuthenticationException(TransportError):
    """401."""


class AuthorizationException(TransportError):
    """403."""


class NotFoundError(TransportError):
    """404."""


class ConflictError(TransportError):
    """409."""


_BY_STATUS = {
    401: AuthenticationException,
    403: AuthorizationException,
    404: NotFoundError,
    409: ConflictError,
}


class OpenSearch:
    """A client that connects at its first request and does not retry. Thread-safe.

    Errors of every method: the subclasses of OpenSearchError.

    Args:
        url: The address of OpenSearch.
        timeout_s: The time limit of one request, connecting included.
        auth: Returns the signed headers of a request (method, URL, headers, body).
        connections: The number of connections that stay open.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0, auth: Auth | None = None, connections: int = 4) -> None:
        import urllib3

        self._url = url.rstrip("/")
        self._auth = auth
        self._pool = urllib3.PoolManager(
            maxsize=connections, timeout=urllib3.Timeout(total=timeout_s), retries=False, block=False
        )
        self.indices = Indices(self)

    def request(self, method: str, path: str, body: Any = None, params: Params | None = None) -> Any:
        """Send a request and return the JSON of the answer.

        Args:
            method: The HTTP method.
            path: Quoted, without its first slash.
            body: A value for JSON, or the bytes of several JSON lines.
            params: The parameters of the query.
        """
        import urllib3

        url = f"{self._url}/{path}" + (f"?{urlencode(_texts(params))}" if params else "")
        lines = isinstance(body, bytes)
        content = body if lines or body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"content-type": "application/x-ndjson" if lines else "application/json"}
        if self._auth is not None:
            headers = self._auth(method, url, headers, content) | NOTHING_UNSIGNED
        try:
            response = self._pool.request(method, url, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        try:
            answer = json.loads(response.data)
        except ValueError as error:
            if response.status >= 400:  # the page of a gateway
                raise _refusal(response.status, response.data[:200].decode(errors="replace")) from error
            raise SerializationError(f"{response.status} and no JSON") from error
        if response.status >= 400:
            raise _refusal(response.status, answer)
        return answer

    def mget(self, *, body: Mapping[str, Any], index: str | None = None) -> Any:
        """Return documents by id."""
        return self.request("POST", "_mget" if index is None else f"{_quoted(index)}/_mget", body)

    def search(self, *, index: str, body: Mapping[str, Any], **params: Any) -> Any:
        """Return documents by query."""
        return self.request("POST", f"{_quoted(index)}/_search", body, params)

    def bulk(self, *, body: bytes) -> Any:
        """Write several documents, two lines each."""
        return self.request("POST", "_bulk", body)

    def get(self, *, index: str, id: str) -> Any:
        """Return one document. Errors: NotFoundError where there is none."""
        return self.request("GET", f"{_quoted(index)}/_doc/{_quoted(id)}")

    def index(self, *, index: str, id: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        """Write one document. Errors: ConflictError where params forbid it."""
        return self.request("PUT", f"{_quoted(index)}/_doc/{_quoted(id)}", body, params)

    def delete_by_query(self, *, index: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        """Delete the documents of a query."""
        return self.request("POST", f"{_quoted(index)}/_delete_by_query", body, params)

    def close(self) -> None:
        """Close the open connections."""
        self._pool.clear()


class Indices:
    """Requests about whole indices and aliases."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def refresh(self, *, index: str | None = None) -> Any:
        """Make written documents visible to searches; index: None: of every index."""
        return self._client.request("POST", "_refresh" if index is None else f"{_quoted(index)}/_refresh")

    def get_alias(self, *, name: str) -> Any:
        """Return the indices of aliases. Errors: NotFoundError where one is missing, with the others in its info."""
        return self._client.request("GET", f"_alias/{_quoted(name)}")

    def update_aliases(self, *, body: Mapping[str, Any]) -> Any:
        """Change several aliases in one step."""
        return self._client.request("POST", "_aliases", body)


def _refusal(status: int, answer: Any) -> TransportError:
    error = answer.get("error") if isinstance(answer, dict) else answer
    kind = error.get("type", "") if isinstance(error, dict) else str(error or "")
    return _BY_STATUS.get(status, TransportError)(status, kind, answer)


def _quoted(name: str) -> str:
    return quote(name, safe=",*-_.~")


def _texts(params: Params) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
