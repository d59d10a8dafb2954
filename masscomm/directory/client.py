"""As much of OpenSearch's REST API as the functions ask for, over urllib3.

opensearch-py does the same and more; importing it takes longer than everything else a function imports together
(docs/decisions/058-own-clients.md), for an asynchronous client and two HTTP libraries that nothing here uses. The names
are its own, so that either fits where the other does.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from masscomm.aws.request import NOTHING_UNSIGNED

type Auth = Callable[[str, str, Mapping[str, str], bytes | None], dict[str, str]]
type Params = Mapping[str, Any]


class OpenSearchError(Exception):
    """The root of what follows."""


class ConnectionError(OpenSearchError):
    """No answer: refused, broken off, too slow."""


class SerializationError(OpenSearchError):
    """An answer that is not JSON."""


class TransportError(OpenSearchError):
    """An answer that says no. error: its type, in OpenSearch's words; info: the whole of it."""

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
    """A client that connects at its first request and repeats nothing by itself; for all threads.

    timeout_s: of one request, connecting included; auth: all headers of a request, signed (method, URL, headers, body).
    Errors of every method: the tree above.
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
        """The answer's JSON. path: quoted, without its first slash; body: JSON's value, or bytes of a line each."""
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
            if response.status >= 400:  # a gateway's own page
                raise _refusal(response.status, response.data[:200].decode(errors="replace")) from error
            raise SerializationError(f"{response.status} and no JSON") from error
        if response.status >= 400:
            raise _refusal(response.status, answer)
        return answer

    def mget(self, *, body: Mapping[str, Any], index: str | None = None) -> Any:
        """Documents by id."""
        return self.request("POST", "_mget" if index is None else f"{_quoted(index)}/_mget", body)

    def search(self, *, index: str, body: Mapping[str, Any], **params: Any) -> Any:
        """Documents by query."""
        return self.request("POST", f"{_quoted(index)}/_search", body, params)

    def bulk(self, *, body: bytes) -> Any:
        """Several writes, two lines each."""
        return self.request("POST", "_bulk", body)

    def get(self, *, index: str, id: str) -> Any:
        """One document; NotFoundError where there is none."""
        return self.request("GET", f"{_quoted(index)}/_doc/{_quoted(id)}")

    def index(self, *, index: str, id: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        """Write one document; ConflictError where params forbid it."""
        return self.request("PUT", f"{_quoted(index)}/_doc/{_quoted(id)}", body, params)

    def delete_by_query(self, *, index: str, body: Mapping[str, Any], params: Params | None = None) -> Any:
        """Delete what a query finds."""
        return self.request("POST", f"{_quoted(index)}/_delete_by_query", body, params)

    def close(self) -> None:
        """Close what connections there are."""
        self._pool.clear()


class Indices:
    """What concerns indices and aliases as a whole."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def refresh(self, *, index: str | None = None) -> Any:
        """Make what was written visible to searches; of every index where none is named."""
        return self._client.request("POST", "_refresh" if index is None else f"{_quoted(index)}/_refresh")

    def get_alias(self, *, name: str) -> Any:
        """The indices behind aliases; NotFoundError where one does not exist, with the others in its info."""
        return self._client.request("GET", f"_alias/{_quoted(name)}")

    def update_aliases(self, *, body: Mapping[str, Any]) -> Any:
        """Several changes of aliases in one step."""
        return self._client.request("POST", "_aliases", body)


def _refusal(status: int, answer: Any) -> TransportError:
    error = answer.get("error") if isinstance(answer, dict) else answer
    kind = error.get("type", "") if isinstance(error, dict) else str(error or "")
    return _BY_STATUS.get(status, TransportError)(status, kind, answer)


def _quoted(name: str) -> str:
    return quote(name, safe=",*-_.~")


def _texts(params: Params) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in params.items()}
