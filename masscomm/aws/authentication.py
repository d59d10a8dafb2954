"""Authentication of the functions to Kafka, OpenSearch and Postgres, chosen by environment variables.

    KAFKA_AUTHENTICATION              none (default), aws_msk_iam
    OPENSEARCH_AUTHENTICATION         none (default), aws_sigv4
    METRICS_DATABASE_AUTHENTICATION   none (default), aws_rds_iam

The region is AWS_REGION, which Lambda sets. Each signature is computed from the current credentials of the function's
role, so no password is stored. Each connection to another machine verifies the server's identity.
"""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from masscomm import environment
from masscomm.aws.credentials import RoleCredentials
from masscomm.aws.signature import Credentials, Scope, signed_headers, signed_url
from masscomm.domain.time_limits import KAFKA_RECONNECT_MOST_S, KAFKA_RECONNECT_S, KAFKA_TOKEN_S
from masscomm.errors import Stop
from schemas import absolute

NONE = "none"
MSK_IAM, SIGV4, RDS_IAM = "aws_msk_iam", "aws_sigv4", "aws_rds_iam"
# The file contains the certificate authorities that sign RDS Proxy's certificates (Amazon's own) and RDS' certificates
# in each region of a deployment.
_AUTHORITIES = "certificates/postgres.pem"
_THIS_MACHINE = frozenset({"", "127.0.0.1", "::1", "localhost"})

type CredentialsNow = Callable[[], Credentials]
type Now = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


# --- Kafka ------------------------------------------------------------------------------------------------------------


def kafka_client_config() -> dict[str, Any]:
    """Return the properties with which a confluent-kafka client signs in."""
    if environment.choice("KAFKA_AUTHENTICATION", (NONE, MSK_IAM)) == NONE:
        return {}
    region, credentials = environment.required("AWS_REGION"), RoleCredentials()

    def oauth_cb(_config: str) -> tuple[str, float]:
        return msk_token(region, credentials(), _now())

    return {
        "security.protocol": "SASL_SSL",
        "enable.ssl.certificate.verification": True,  # guard: tls.broker
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": oauth_cb,
        "reconnect.backoff.ms": round(KAFKA_RECONNECT_S * 1000),
        "reconnect.backoff.max.ms": round(KAFKA_RECONNECT_MOST_S * 1000),
    }


def spark_kafka_options(group: str) -> dict[str, str]:
    """Return the authentication options of Spark's Kafka source, which uses the Java client
    (local/devstack/jars/msk_iam).

    Args:
        group: The consumer group that IAM policies permit. Spark commits no offset under it.
    """
    if environment.choice("KAFKA_AUTHENTICATION", (NONE, MSK_IAM)) == NONE:
        return {}
    return {
        "kafka.group.id": group,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.endpoint.identification.algorithm": "https",
        "kafka.reconnect.backoff.ms": str(round(KAFKA_RECONNECT_S * 1000)),
        "kafka.reconnect.backoff.max.ms": str(round(KAFKA_RECONNECT_MOST_S * 1000)),
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }


def msk_token(region: str, credentials: Credentials, at: datetime) -> tuple[str, float]:
    """Return an access token for Amazon MSK, and its expiry in seconds since the epoch. The token is a signed
    connect request in base64.
    """
    url = signed_url(
        f"https://kafka.{region}.amazonaws.com/",
        {"Action": "kafka-cluster:Connect"},
        scope=Scope(service="kafka-cluster", region=region, at=at),
        credentials=credentials,
        expires_s=KAFKA_TOKEN_S,
    )
    text = base64.urlsafe_b64encode(f"{url}&User-Agent=masscomm".encode()).decode().rstrip("=")
    return text, int(at.timestamp()) + float(KAFKA_TOKEN_S)


# --- OpenSearch -------------------------------------------------------------------------------------------------------


class OpenSearchSigner:
    def __init__(self, region: str, credentials: CredentialsNow, now: Now = _now) -> None:
        self._region, self._credentials, self._now = region, credentials, now

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        """Return all headers of the request to send. The signature covers method, URL, headers and body, so none of
        them may change afterwards.
        """
        content = body or b""
        scope = Scope(service="es", region=self._region, at=self._now())
        # Amazon OpenSearch Service accepts requests without this header; OpenSearch Serverless refuses them.
        hashed = {"x-amz-content-sha256": sha256(content).hexdigest()}
        return signed_headers(method, url, {**headers, **hashed}, content, scope=scope, credentials=self._credentials())


def opensearch_auth() -> OpenSearchSigner | None:
    """Return the signer of requests to OpenSearch, or None if OPENSEARCH_AUTHENTICATION is `none`."""
    if environment.choice("OPENSEARCH_AUTHENTICATION", (NONE, SIGV4)) == NONE:
        return None
    return OpenSearchSigner(environment.required("AWS_REGION"), RoleCredentials())


# --- Postgres ---------------------------------------------------------------------------------------------------------


def database_url(url: str) -> str | Callable[[], str]:
    """Return the address of the metrics database for psycopg's connection pool: a URL, or a function that returns a
    URL with a new token for each connection.

    Args:
        url: A URL of libpq. If tokens are used, it has a user and no password.

    Raises:
        Stop: METRICS_DATABASE_AUTHENTICATION has an unknown value, AWS_REGION is not set, or libpq cannot parse `url`.
    """
    url = verified(url)
    if environment.choice("METRICS_DATABASE_AUTHENTICATION", (NONE, RDS_IAM)) == NONE:
        return url
    region, credentials = environment.required("AWS_REGION"), RoleCredentials()
    return lambda: with_password(url, rds_token(url, region, credentials(), _now()))


def verified(url: str) -> str:
    """Return the URL with sslmode=verify-full, and with RDS' certificate authorities if the URL names none.

    With any other sslmode the client accepts a different server's certificate. The URL of a server on this machine is
    returned unchanged.

    Raises:
        Stop: libpq cannot parse the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise Stop("the database's address is not a URL: postgresql://USER@HOST/NAME")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    hosts = (query.get("host") or parts.hostname or "").split(",")
    if all(host in _THIS_MACHINE or host.startswith("/") for host in hosts):
        return url
    query = {"sslrootcert": absolute(_AUTHORITIES)} | query | {"sslmode": "verify-full"}  # guard: tls.database
    return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote, safe="/")))


def address_now(url: str) -> str:
    """Return the URL of the metrics database for one connection that is opened immediately (see database_url)."""
    found = database_url(url)
    return found if isinstance(found, str) else found()


def rds_token(url: str, region: str, credentials: Credentials, at: datetime) -> str:
    """Return the password that RDS accepts for the URL's user: a signed connect request, without its scheme."""
    parts = urlsplit(url)
    signed = signed_url(
        f"https://{parts.hostname}:{parts.port or 5432}/",
        {"Action": "connect", "DBUser": parts.username or ""},
        scope=Scope(service="rds-db", region=region, at=at),
        credentials=credentials,
        expires_s=KAFKA_TOKEN_S,
    )
    return signed.removeprefix("https://")


def with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))
