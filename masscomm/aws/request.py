"""Sends signed requests to an AWS service over kept-alive connections. The caller interprets error responses.

Source: AWS documentation, "Making Query API requests".
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Self, TypedDict, Unpack
from urllib.parse import quote_plus, urlsplit

from masscomm.aws import endpoint
from masscomm.aws.credentials import RoleCredentials
from masscomm.aws.signature import Credentials, Scope, Signer

# A signer, with its credentials and time, is used for one second. Its age is measured with the wall clock, because the
# monotonic clock may stop while Lambda freezes the environment.
SIGNER_S = 1.0
FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of requests to a service. One attempt ends within connect_s + read_s."""

    # The number of connections that stay open. Each thread needs one.
    connections: int = 10
    # The time limit of name resolution, connecting and the TLS handshake together, in seconds.
    connect_s: float
    # The longest time without a received byte, in seconds.
    read_s: float
    # The number of attempts for a request that may be repeated, the first one included.
    attempts: int = 1


class ServiceOptions(TypedDict, total=False):
    # The service's URL. By default AWS_ENDPOINT_URL_<SERVICE> or AWS_ENDPOINT_URL, else the default address of the
    # region.
    url: str
    # The region. By default AWS_REGION, else AWS_DEFAULT_REGION.
    region: str
    # Returns the current credentials; by default those of the function's role.
    credentials: Callable[[], Credentials]
    # Returns the time for a signature; by default the system clock's.
    now: Callable[[], datetime]


class Service:
    """The address of an AWS service, and the scope and credentials of its signatures.

    Args:
        name: The service's name in its address and in signatures.
        options: Values that replace those of the environment.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, name: str, **options: Unpack[ServiceOptions]) -> None:
        self._name = name
        self._region = options.get("region") or endpoint.region()
        url = options.get("url")
        self.url = f"{url.rstrip('/')}/" if url else endpoint.endpoint(name, self._region)
        self.credentials = options.get("credentials") or RoleCredentials()
        self._now = options.get("now") or (lambda: datetime.now(UTC))

    def scope(self) -> Scope:
        """Return the scope of a signature with the current time."""
        return Scope(service=self._name, region=self._region, at=self._now())


class Requests:
    """Sends POST requests to one service. Thread-safe.

    A signature is computed with the credentials and the time of up to a second ago: AWS accepts it for five minutes.

    Args:
        service: The service's name in its address and in signatures.
        limits: The limits of each request. This class does not use `attempts`; the caller does.
        options: The options of the Service. `credentials` is called once a second while requests are sent.

    Raises:
        Stop: No region is set.
    """

    def __init__(self, service: str, limits: Limits, **options: Unpack[ServiceOptions]) -> None:
        from masscomm.aws.pooled_http import PooledHttp

        self._service = Service(service, **options)
        self.url = self._service.url
        self._target = urlsplit(self.url).path or "/"
        self._total_s = limits.connect_s + limits.read_s
        self._http = PooledHttp(
            self.url,
            connect_s=limits.connect_s,
            read_s=limits.read_s,
            total_s=self._total_s,
            connections=limits.connections,
        )
        # By the headers of the request: the signer, and the wall-clock time at which it was made.
        self._signers: dict[tuple[tuple[str, str], ...], tuple[float, Signer]] = {}

    def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its response, also of an error response.

        Raises:
            NotSent: The request was not sent.
            AnswerLost: The request was sent, and no complete response arrived.
            Stop: There are no credentials.
            Retry: The local address that returns credentials does not respond.
        """
        # The look-up of credentials is part of the call's time.
        until = time.monotonic() + self._total_s
        return self._http.request("POST", self._target, self._signer(headers).headers(body), body, until=until)

    def _signer(self, headers: Mapping[str, str]) -> Signer:
        key, now_s = tuple(headers.items()), time.time()
        made_s, signer = self._signers.get(key, (0.0, None))
        # The age is negative if the clock was set back.
        if signer is None or not 0 <= now_s - made_s < SIGNER_S:  # guard: signatures.renewed
            scope, credentials = self._service.scope(), self._service.credentials()
            signer = Signer("POST", self.url, headers, scope=scope, credentials=credentials)
            self._signers[key] = now_s, signer
        return signer


class QuotedText(str):
    """A text with its quoted form, which a form contains. Quoting a push message takes a twentieth of its call, and
    messages of one content differ in an id only.
    """

    __slots__ = ("quoted",)

    quoted: str

    @classmethod
    def joined(cls, parts: Iterable[str], quoted_parts: Iterable[str]) -> Self:
        text = cls("".join(parts))
        text.quoted = "".join(quoted_parts)
        return text


def form(operation: str, version: str, parameters: Iterable[tuple[str, str]]) -> bytes:
    """Return the request body of an operation of SNS or SES as a form. The constant FORM has the matching headers.

    Args:
        parameters: The parameters by name. No name has a character that must be quoted.
    """
    pairs = (("Action", operation), ("Version", version), *parameters)
    return "&".join([f"{name}={quoted(value)}" for name, value in pairs]).encode()


# quote_plus takes 21 µs for a push message; replacing the ASCII characters one by one takes 5 µs. The percent sign must
# be replaced first.
_UNQUOTED = re.compile(r"[A-Za-z0-9_.~-]*")
_ASCII = "%" + "".join(map(chr, range(128))).replace("%", "")
_REPLACED = [(each, quote_plus(each)) for each in _ASCII if quote_plus(each).startswith("%")]
_REPLACED_PRINTABLE = [(each, replacement) for each, replacement in _REPLACED if each.isprintable()]


def quoted(text: str) -> str:
    """Return the same text as urllib.parse.quote_plus."""
    if isinstance(text, QuotedText):
        return text.quoted
    if _UNQUOTED.fullmatch(text):
        return text
    if not text.isascii():
        return quote_plus(text)
    # Half of the replaced characters are control characters, which hardly any text contains, so these are tried only if
    # needed.
    for character, replacement in _REPLACED_PRINTABLE if text.isprintable() else _REPLACED:
        if character in text:
            text = text.replace(character, replacement)
    return text.replace(" ", "+")


def element(name: str, answer: str) -> str | None:
    """Return the text of the first XML element with that name in a response, or None if there is none."""
    found = _element(name).search(answer)
    if found is None:
        return None
    text = found[1]
    if "&" in text:
        from html import unescape  # Errors of providers have it; the import takes a millisecond of a cold start.

        text = unescape(text)
    return text.strip()


@cache
def _element(name: str) -> re.Pattern[str]:
    return re.compile(rf"<{name}>([^<]*)</{name}>")
