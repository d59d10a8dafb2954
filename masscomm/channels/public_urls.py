"""Checks addresses that tenants give: only public servers may be called, and no server inside the installation.

WEBHOOK_LOOPBACK=1 permits servers on this machine, for the local stack. A deployment refuses the setting.

`checked` examines the text of a URL. `public_addresses` resolves its host and examines each address; a request must
connect to exactly these addresses (masscomm.channels.guarded_http), because a second resolution of a hostile name could
have another result.

Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries; RFC 6052 (NAT64), RFC 3056 (6to4).
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from masscomm.errors import Retry, Stop
from masscomm.texts import CodedText, Text

MAX_URL = 2_000
HTTPS = 443
# Ports below this number belong to services such as SSH and SMTP.
FIRST_FREE_PORT = 1_024
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# The last label of a host that is an address: no top-level domain has this form.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_VISIBLE = re.compile(r"[!-~]+")
# IPv6 addresses outside 2000::/3 are not assigned for unicast, or contain an IPv4 address (::/96, ::ffff:0:0/96,
# 64:ff9b::/96).
_UNICAST = IPv6Network("2000::/3")
# Parts of 2000::/3 that are not public: protocol assignments with Teredo, documentation, 6to4, documentation.
_NOT_PUBLIC = tuple(IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_RELAY_6TO4 = "192.88.99."

type Address = IPv4Address | IPv6Address
# Returns the addresses of a host and port as texts. Raises OSError.
type Resolve = Callable[[str, int], Sequence[str]]


class UrlRefused(Exception):
    """The URL must not be called. The text is for the tenant who gave it."""

    def __init__(self, text: CodedText) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, kw_only=True)
class Target:
    """A checked URL."""

    scheme: str
    host: str
    port: int
    # Path and query.
    path: str

    @property
    def authority(self) -> str:
        """Return the value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == HTTPS and self.scheme == "https" else f"{host}:{self.port}"


def loopback_permitted(environment: Mapping[str, str]) -> bool:
    """Return whether environment variables permit servers on this machine. Raises Stop in a deployment."""
    if not environment.get("WEBHOOK_LOOPBACK"):
        return False
    # Every deployed function has this variable (infra/cdk/resources/function.py).
    if environment.get("MASSCOMM_ENVIRONMENT"):  # guard: public_urls.loopback_in_production
        raise Stop("WEBHOOK_LOOPBACK is for the local stack only")
    return True


def checked(url: str, *, loopback: bool = False) -> Target:
    """Return the parts of a URL.

    Args:
        loopback: Whether servers on this machine are permitted, even without TLS, as in the local stack.

    Raises:
        UrlRefused: The text is not a URL that may be called, whatever its host resolves to.
    """
    if len(url) > MAX_URL or not _VISIBLE.fullmatch(url) or "\\" in url:
        raise UrlRefused(Text.URL_TOO_LONG.filled(maximum=MAX_URL))
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as error:
        raise UrlRefused(Text.URL_INVALID.filled()) from error
    if parts.scheme != "https" and not (loopback and parts.scheme == "http"):  # guard: public_urls.https
        raise UrlRefused(Text.URL_NOT_HTTPS.filled())
    if "@" in parts.netloc:  # guard: public_urls.credentials
        raise UrlRefused(Text.URL_WITH_CREDENTIALS.filled())
    if parts.fragment:
        raise UrlRefused(Text.URL_WITH_FRAGMENT.filled())
    if not _is_host(host):
        raise UrlRefused(Text.URL_WITHOUT_HOST.filled())
    address = _address(host)
    if address is not None and not is_public(address) and not (loopback and address.is_loopback):
        raise UrlRefused(Text.URL_NOT_PUBLIC.filled())  # Earlier than by `public_addresses`, for who gives the URL.
    if port is None:
        port = HTTPS if parts.scheme == "https" else 80
    if port != HTTPS and port < FIRST_FREE_PORT:  # guard: public_urls.port
        raise UrlRefused(Text.URL_PORT.filled(port=HTTPS, first=FIRST_FREE_PORT))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(scheme=parts.scheme, host=host, port=port, path=path)


def public_addresses(target: Target, *, resolve: Resolve | None = None, loopback: bool = False) -> Sequence[str]:
    """Return the addresses of a target.

    Raises:
        UrlRefused: An address is not public.
        Retry: The name has no address now.
    """
    try:
        found = list(dict.fromkeys((resolve or _resolved)(target.host, target.port)))
    except (OSError, UnicodeError) as error:
        raise Retry("the host name has no address") from error
    if not found:
        raise Retry("the host name has no address")
    addresses = [ip_address(each.partition("%")[0]) for each in found]
    if loopback and all(each.is_loopback for each in addresses):
        return found
    # One address that is not public is enough: the name may be one of a rebinding attack.
    if target.scheme != "https" or not all(is_public(each) for each in addresses):  # guard: public_urls.addresses
        raise UrlRefused(Text.URL_NOT_PUBLIC.filled())
    return found


def is_public(address: Address) -> bool:
    """Return whether an address is one of a server in the Internet."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not str(address).startswith(_RELAY_6TO4)
    return (
        address in _UNICAST
        and address.is_global
        and not address.is_multicast
        and not any(address in network for network in _NOT_PUBLIC)
    )


def _is_host(host: str) -> bool:
    if len(host) > 253:
        return False
    if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]):
        # Resolvers read 127.1, 2130706433 and 0x7f000001 as addresses, too.
        return _address(host) is not None and "%" not in host
    return _HOST.fullmatch(host) is not None


def _address(host: str) -> Address | None:
    """Return the address in the usual form that a host is; None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _resolved(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(address[0]) for *_, address in found]
