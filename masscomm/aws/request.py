"""One signed request to a service of AWS over a kept connection; what an error means is the caller's to say.

Source: AWS documentation, "Making Query API requests".
"""

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote_plus

from masscomm.aws import endpoint
from masscomm.aws.credentials import RoleCredentials
from masscomm.aws.signature import Credentials, Scope, signed_headers

# urllib3 adds headers of its own after the request is signed; its urllib3.util.SKIP_HEADER leaves one out.
NOTHING_UNSIGNED = dict.fromkeys(("user-agent", "accept-encoding"), "@@@SKIP_HEADER@@@")
FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """connections: kept open, one a thread; attempts: in all, of what may be repeated.

    connect_s: seconds of resolving, connecting and the TLS handshake together; read_s: seconds without a byte. An
    attempt ends within their sum.
    """

    connections: int = 10
    connect_s: float
    read_s: float
    attempts: int = 1


def _now() -> datetime:
    return datetime.now(UTC)


class Requests:
    """POSTs to one service. Thread-safe.

    url: by default what AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL says, else the region's; region: by default
    AWS_REGION's; credentials: asked before each request. Errors: Stop where no region is set.
    """

    def __init__(
        self,
        service: str,
        limits: Limits,
        *,
        url: str | None = None,
        region: str | None = None,
        credentials: Callable[[], Credentials] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        import urllib3

        from masscomm.aws.bounded_calls import BoundedCalls

        self._service = service
        self._region = region or endpoint.region()
        self.url = f"{url.rstrip('/')}/" if url else endpoint.endpoint(service, self._region)
        self._credentials = credentials or RoleCredentials()
        self._now = now or _now
        self._calls = BoundedCalls(
            limits.connect_s + limits.read_s,
            maxsize=limits.connections,
            timeout=urllib3.Timeout(connect=limits.connect_s, read=limits.read_s),
            # Who asks decides about repetitions.
            retries=False,
            socket_options=[
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
        )

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of the answer, whatever they say.

        Errors: urllib3's HTTPError; Stop and Retry where there are no credentials.
        """
        with self._calls.call():
            scope = Scope(service=self._service, region=self._region, at=self._now())
            signed = signed_headers("POST", self.url, headers, body, scope=scope, credentials=self._credentials())
            sent = signed | NOTHING_UNSIGNED  # guard: signatures.no_later_header
            answer = self._calls.urlopen("POST", self.url, body=body, headers=sent)
        return answer.status, answer.data


def form(operation: str, version: str, parameters: Iterable[tuple[str, str]]) -> bytes:
    """The body that asks for an operation of a service that takes forms (FORM are its headers)."""
    pairs = (("Action", operation), ("Version", version), *parameters)
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs).encode()


def element(name: str, answer: str) -> str | None:
    """The text of the first element of that name in an answer, None where there is none."""
    from html import unescape

    found = re.search(rf"<{name}>([^<]*)</{name}>", answer)
    return None if found is None else unescape(found[1]).strip()
