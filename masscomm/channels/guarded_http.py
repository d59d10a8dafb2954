"""What requests to servers that tenants named have in common: the answer, the settings of TLS, and the reasons for the
tenant why there is no answer. masscomm.channels.kept_alive_http makes the requests.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from masscomm.channels.public_urls import Target

# The largest response that is read: its status line, headers and body.
MAX_RESPONSE_BYTES = 65_536
# The part of the body that is returned.
MAX_BODY_BYTES = 1_024


class NoAnswer(Exception):
    """The server did not answer. The message is a short reason for the tenant."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    # The header Retry-After as sent; None without it.
    retry_after: str | None
    # The beginning of the body; bytes that are not UTF-8 are replaced.
    body: str


@dataclass(frozen=True, kw_only=True)
class ClientCertificate:
    """A certificate with which a client authenticates itself."""

    # Identifies the certificate and its owner: connections are shared only with the same id.
    id: str
    # The certificate, followed by those of its authorities, and the private key without a password, in PEM.
    certificate: str
    private_key: str = field(repr=False)


def tls_context(authorities: str | None, client: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return the settings of TLS to a server that a tenant named.

    Args:
        authorities: A file with further certificate authorities.
        client: The certificate of the client.

    Raises:
        NoAnswer: The certificate of the client cannot be used.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities is not None:
        context.load_verify_locations(authorities)
    if client is not None:
        with _readable(client.certificate) as certificate, _readable(client.private_key) as private_key:
            try:
                # Without a password, one would be asked for at the terminal.
                context.load_cert_chain(certificate, private_key, password="")
            except OSError as error:  # ssl.SSLError, or that a pipe cannot be read twice
                raise NoAnswer("the client certificate cannot be used") from error
    return context


@contextmanager
def _readable(text: str) -> Iterator[str]:
    """Yield a path from which a text of up to 16 kB is read once. It is a pipe: no disk gets the text."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def failed_connection(error: OSError) -> NoAnswer:
    """Return the reason for the tenant why a connection failed."""
    match error:
        case ssl.SSLCertVerificationError():
            return NoAnswer(f"the certificate is not valid: {error.verify_message}")
        case ssl.SSLError():
            return NoAnswer("TLS failed")
    return NoAnswer("the connection failed")


def request_of(target: Target, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a POST request on a connection that is kept."""
    fields = {
        "host": target.authority,
        "content-length": str(len(body)),
        "accept-encoding": "identity",
        "connection": "keep-alive",
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
