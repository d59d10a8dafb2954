"""TLS servers with certificates of an authority that only the test knows."""

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

type Key = ec.EllipticCurvePrivateKey
_SSL_REQUEST = 8  # the first bytes of PostgreSQL's SSLRequest


def _certificate(name: str, key: Key, issuer: str, issuer_key: Key, *, is_authority: bool) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(name)]
    if name == "localhost":
        names.append(x509.IPAddress(ip_address("127.0.0.1")))
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_usage(is_authority=is_authority), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
        **dict.fromkeys(others, False),
    )


@dataclass
class TlsServer:
    """Accepts TLS connections, including PostgreSQL's, and records the client's data after the handshake."""

    context: ssl.SSLContext
    listening: socket.socket
    postgres: bool = False
    # Answers the data of one connection; None: nothing is answered.
    answer: Callable[[ssl.SSLSocket, bytes], None] | None = None
    handshakes: int = 0
    received: list[bytes] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(5)
                    if self.postgres:
                        connection.recv(_SSL_REQUEST)
                        connection.sendall(b"S")
                    with self.context.wrap_socket(connection, server_side=True) as trusted:
                        self.handshakes += 1
                        if data := trusted.recv(1_000):
                            self.received.append(data)
                            if self.answer is not None:
                                self.answer(trusted, data)
                except OSError:
                    continue


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test. path: its PEM file."""

    key: Key
    path: Path
    folder: Path

    def context(self, name: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, "a test's authority", self.key, is_authority=False)
        path = self.folder / f"{name}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def create_authority(folder: Path) -> Authority:
    """Return a new authority, whose files are in the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate("a test's authority", key, "a test's authority", key, is_authority=True)
    path = folder / "authority.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(key, path, folder)


@contextmanager
def tls_servers(authority: Authority) -> Iterator[Callable[..., TlsServer]]:
    """Yield a function that starts a server with a certificate for a name."""
    servers: list[TlsServer] = []

    def start(name: str = "localhost", **settings: Any) -> TlsServer:
        server = TlsServer(authority.context(name), socket.create_server(("127.0.0.1", 0)), **settings)
        threading.Thread(target=server.serve, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.listening.close()
