"""The certificate authority of a database that a JVM connects to: as text, because there is no file of ours there."""

import re

from schemas import read_text

# pgjdbc's: takes the authority as PEM text or from an environment variable. With sslmode=verify-full the driver
# compares the host's name as well (org.postgresql.ssl.MakeSSL).
ONE_AUTHORITY = "org.postgresql.ssl.SingleCertValidatingFactory"


def rds_authority(region: str) -> str:
    """The PEM of rds-ca-rsa2048-g1 in a region. Errors: ValueError where schemas/certificates lacks the region."""
    found = re.search(
        rf"^# Amazon RDS {re.escape(region)} Root CA RSA2048 G1\n(-----BEGIN.*?END CERTIFICATE-----)",
        read_text("certificates/postgres.pem"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise ValueError(f"schemas/certificates/postgres.pem lacks the certificate authorities of RDS in {region}")
    return found[1]
