"""Returns RDS' certificate authority as text, for JVM clients whose containers contain no file of masscomm."""

import re

from schemas import read_text

# A socket factory of pgjdbc that reads the certificate authority as PEM text, also from an environment variable. With
# sslmode=verify-full, the driver also verifies the host name (org.postgresql.ssl.MakeSSL).
ONE_AUTHORITY = "org.postgresql.ssl.SingleCertValidatingFactory"


def rds_authority(region: str) -> str:
    """Return the certificate of the authority rds-ca-rsa2048-g1 in a region, as PEM.

    Raises:
        ValueError: schemas/certificates has no authority of that region.
    """
    found = re.search(
        rf"^# Amazon RDS {re.escape(region)} Root CA RSA2048 G1\n(-----BEGIN.*?END CERTIFICATE-----)",
        read_text("certificates/postgres.pem"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise ValueError(f"schemas/certificates/postgres.pem lacks the certificate authorities of RDS in {region}")
    return found[1]
