"""Makes the certificate with which a server behind a load balancer encrypts its traffic.

The load balancer verifies no certificates of its targets, so that each start makes another key pair.
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html
"""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VALID = timedelta(days=3_650)


def self_signed_context(name: str) -> ssl.SSLContext:
    """Return the TLS context of a server with a new key pair and a certificate of this common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Python reads a key pair from a file only.
    with tempfile.NamedTemporaryFile() as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    return context
