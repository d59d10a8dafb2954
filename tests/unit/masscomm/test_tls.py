"""Every client rejects a server without a valid certificate for its name, and sends it nothing."""

import ssl
import traceback
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from masscomm.aws import authentication, sdk
from masscomm.aws.authentication import verified
from masscomm.aws.request import FORM, Limits, Requests
from masscomm.aws.signature import Credentials
from masscomm.channels.sns_push import SnsPush
from masscomm.directory.client import ConnectionError as NoAnswer
from masscomm.directory.client import OpenSearch
from masscomm.errors import Stop
from masscomm.kafka.avro import HttpSchemaRegistry
from masscomm.kafka.topics import chain_topics
from ops.provisioning.directory import create_indices
from ops.provisioning.registry import register_schemas
from schemas import absolute
from tests.support.contracts.provider import publish
from tests.support.servers.tls_server import Authority, TlsServer, create_authority, tls_servers


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return create_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def serving(authority: Authority) -> Iterator[Callable[..., TlsServer]]:
    """Return a function that starts a server with a certificate for a name; only the test trusts its authority."""
    with tls_servers(authority) as start:
        yield start


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _refused_by(server: TlsServer, host: str, query: str = "") -> str:
    """Connect psycopg to the server under a host name. Returns the error."""
    url = verified(f"postgresql://u@{host}:{server.port}/metrics?hostaddr=127.0.0.1&connect_timeout=5{query}")
    with pytest.raises(psycopg.OperationalError) as raised:
        psycopg.connect(url)
    return str(raised.value)


@pytest.mark.guarantee("tls.server_is_verified")
@pytest.mark.parametrize("query", ["", "&sslmode=require", "&sslmode=disable", "&sslmode=verify-ca"])
def test_a_database_of_an_unknown_authority_is_refused(serving: Callable[..., TlsServer], query: str) -> None:
    """The certificate is verified even if the URL's sslmode requires less, as URLs of earlier deployments do."""
    server = serving("database.example", postgres=True)
    assert "certificate verify failed" in _refused_by(server, "database.example", query)
    assert server.received == []


@pytest.mark.kills(guard="tls.database")
def test_a_database_with_another_hosts_certificate_is_refused(
    serving: Callable[..., TlsServer], authority: Authority
) -> None:
    server = serving("another.example", postgres=True)
    text = _refused_by(server, "database.example", f"&sslrootcert={authority.path}&sslmode=verify-ca")
    assert 'does not match host name "database.example"' in text
    assert server.received == []


def test_database_with_a_valid_certificate_is_trusted(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """A valid certificate is trusted, so the certificates caused the rejections in the other tests."""
    server = serving("database.example", postgres=True)
    text = _refused_by(server, "database.example", f"&sslrootcert={authority.path}")
    assert "certificate" not in text
    assert b"metrics" in server.received[0]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@127.0.0.1:5432/d",
        "postgresql://u@localhost/d?sslmode=disable",
        "postgresql://u@[::1]/d",
        "postgresql:///d?host=/tmp",
        "postgresql:///d",
    ],
)
def test_loopback_database_url_is_unchanged(url: str) -> None:
    assert verified(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@host/d",
        "postgres://u@host/d?sslmode=prefer",
        "postgresql://u@localhost,host/d",
        "postgresql://u@localhost/d?host=host",
        "postgresql://u@127.0.0.1.example/d",
    ],
)
def test_remote_database_url_requires_verification(url: str) -> None:
    query = parse_qs(urlsplit(verified(url)).query)
    assert (query["sslmode"], query["sslrootcert"]) == (["verify-full"], [absolute("certificates/postgres.pem")])
    assert verified(verified(url)) == verified(url)


@pytest.mark.parametrize("text", ["host=h dbname=d", "h", "", "mysql://h/d"])
def test_malformed_database_url_is_a_stop(text: str) -> None:
    with pytest.raises(Stop):
        verified(text)


def test_psycopg_reads_the_authorities() -> None:
    """An unreadable file would fail every connection in AWS."""
    context = ssl.create_default_context(cafile=absolute("certificates/postgres.pem"))
    names = {dict(entry[0] for entry in each["subject"])["commonName"] for each in context.get_ca_certs()}  # type: ignore[misc]
    assert {f"Amazon Root CA {number}" for number in range(1, 5)} < names


# --- HTTPS ------------------------------------------------------------------------------------------------------------


def of_opensearch(url: str) -> None:
    OpenSearch(url, timeout_s=5).get(index="i", id="1")


def of_registry(url: str) -> None:
    HttpSchemaRegistry(url).schema_by_id(1)


def of_aws(url: str) -> None:
    credentials = Credentials(access_key="a", secret_key="s", token="t")
    limits = Limits(connections=1, connect_s=5, read_s=5)
    Requests("sns", limits, url=url, region="eu-central-1", credentials=lambda: credentials).post(b"a=b", FORM)


def of_sdk(url: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "any")
        patch.setenv("AWS_ENDPOINT_URL_SNS", url)
        client = sdk.client("sns", Limits(connect_s=5, read_s=5))
        client.set_endpoint_attributes(EndpointArn="arn", Attributes={"Enabled": "true"})


def of_provider(url: str) -> None:
    push = SnsPush(url=url, region="eu-central-1", credentials=lambda: Credentials("a", "s"))
    publish(push, endpoint_arn="arn", message="{}", attributes={})


def of_provisioning(url: str) -> None:
    register_schemas(url, chain_topics()[:1])


def of_indices(url: str) -> None:
    create_indices(url, "g1")


@pytest.mark.parametrize(
    "call",
    [of_opensearch, of_registry, of_aws, of_sdk, of_provider, of_provisioning, of_indices],
    ids=lambda call: call.__name__,
)
@pytest.mark.parametrize("name", ["localhost", "another.example"])
def test_an_https_server_of_an_unknown_authority_is_refused(
    serving: Callable[..., TlsServer], call: Callable[[str], None], name: str
) -> None:
    server = serving(name)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has its own, and one cause
        call(f"https://localhost:{server.port}")
    assert "CERTIFICATE_VERIFY_FAILED" in "".join(traceback.format_exception(raised.value))
    assert server.received == []


def test_opensearchs_certificate_error_counts_as_unanswered(serving: Callable[..., TlsServer]) -> None:
    with pytest.raises(NoAnswer, match="certificate"):
        of_opensearch(f"https://localhost:{serving().port}")


# --- Kafka ------------------------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="tls.broker")
@pytest.mark.parametrize(("name", "trusted"), [("localhost", False), ("another.example", True)])
def test_broker_without_a_valid_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    serving: Callable[..., TlsServer],
    authority: Authority,
    name: str,
    trusted: bool,
) -> None:
    """trusted: whether the client trusts the authority; if True, only the certificate's name is wrong."""
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    server = serving(name)
    said: list[str] = []
    config = authentication.kafka_client_config() | {
        "bootstrap.servers": f"localhost:{server.port}",
        "broker.address.family": "v4",
        "log_level": 0,
        "oauth_cb": lambda _: ("token", 4e9),
        "error_cb": lambda error: said.append(str(error)),
        **({"ssl.ca.location": str(authority.path)} if trusted else {}),
    }
    client = AdminClient(config)
    for _ in range(100):
        if any("verify failed" in each for each in said):
            break
        with pytest.raises(KafkaException):
            client.list_topics(timeout=0.2)
        client.poll(0)
    assert any("verify failed" in each for each in said), said
    assert server.received == []
