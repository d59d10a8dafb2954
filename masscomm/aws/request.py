"""Signed requests to an AWS service over kept connections. The caller interprets error answers.

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

# urllib3 adds these headers after the request is signed, unless their value is urllib3.util.SKIP_HEADER.
NOTHING_UNSIGNED = dict.fromkeys(("user-agent", "accept-encoding"), "@@@SKIP_HEADER@@@")
FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the requests to a service. One attempt ends within connect_s + read_s."""

    # Connections kept open; each thread needs one.
    connections: int = 10
    # Seconds for resolving, connecting and the TLS handshake together.
    connect_s: float
    # Seconds without a received byte.
    read_s: float
    # Attempts in total, of requests that may be repeated.
    attempts: int = 1


def _now() -> datetime:
    return datetime.now(UTC)


class Requests:
    """POSTs to one service. Thread-safe.

    Args:
        service: its name in addresses and signatures.
        limits: of each request; `attempts` is for the caller.
        url: by default AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL, else the region's address.
        region: by default AWS_REGION, else AWS_DEFAULT_REGION.
        credentials: called before each request; by default the role's.
        now: the time of a signature; by default the system clock's.

    Raises:
        Stop: no region is set.
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
            # The caller retries.
            retries=False,
            socket_options=[
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
        )

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a request and return the answer's status, errors included, and body.

        Raises:
            HTTPError: urllib3's; there is no complete answer.
            Stop: there are no credentials.
            Retry: the address of the credentials does not answer.
        """
        with self._calls.call():
            scope = Scope(service=self._service, region=self._region, at=self._now())
            signed = signed_headers("POST", self.url, headers, body, scope=scope, credentials=self._credentials())
            sent = signed | NOTHING_UNSIGNED  # guard: signatures.no_later_header
            answer = self._calls.urlopen("POST", self.url, body=body, headers=sent)
        return answer.status, answer.data


def form(operation: str, version: str, parameters: Iterable[tuple[str, str]]) -> bytes:
    """Return the request body of an operation of SNS or SES; FORM has its headers."""
    pairs = (("Action", operation), ("Version", version), *parameters)
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs).encode()


def element(name: str, answer: str) -> str | None:
    """Return the text of the first XML element of that name in an answer, None if there is none."""
    from html import unescape

    found = re.search(rf"<{name}>([^<]*)</{name}>", answer)
    return None if found is None else unescape(found[1]).strip()
