"""Authentication to Kafka, OpenSearch and Postgres: our signatures equal those of AWS's own libraries."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import aws_msk_iam_sasl_signer.MSKAuthTokenProvider as msk_library
import botocore.auth
import botocore.session
import psycopg
import pytest
from botocore.credentials import Credentials as BotocoreCredentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner, generate_db_auth_token
from confluent_kafka.admin import AdminClient
from hypothesis import given, settings
from hypothesis import strategies as st

from masscomm.aws import authentication
from masscomm.aws.authentication import msk_token, rds_token, with_password
from masscomm.aws.credentials import RoleCredentials
from masscomm.aws.signature import Credentials
from masscomm.errors import Retry, Stop
from tests.support.servers.http_server import Answer, Asked, http_server

REGIONS = st.sampled_from(["eu-central-1", "us-east-1", "ap-southeast-2"])
SECRETS = st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1, max_size=60)
CREDENTIALS = st.builds(
    Credentials,
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=16, max_size=20),
    SECRETS,
    st.none() | st.text("ABCabc019+/=", min_size=1, max_size=200),
)
TIMES = st.integers(1_500_000_000, 2_500_000_000).map(lambda at: datetime.fromtimestamp(at, UTC))


def at_that_time(at: datetime) -> pytest.MonkeyPatch:
    """Set botocore's clock to this time; the caller undoes the patch."""
    patch = pytest.MonkeyPatch()
    patch.setattr(botocore.auth, "get_current_datetime", lambda *_args, **_kwargs: at.replace(tzinfo=None))
    return patch


def of_botocore(credentials: Credentials) -> BotocoreCredentials:
    return BotocoreCredentials(credentials.access_key, credentials.secret_key, credentials.token)


@settings(max_examples=50)
@given(region=REGIONS, credentials=CREDENTIALS, at=TIMES)
def test_msk_token_equals_the_librarys(region: str, credentials: Credentials, at: datetime) -> None:
    token, until = msk_token(region, credentials, at)
    patch = at_that_time(at)
    patch.setattr(msk_library, "__load_credentials_from_aws_profile__", lambda _profile: of_botocore(credentials))
    try:
        theirs, their_end_ms = msk_library.generate_auth_token_from_profile(region, "any")
    finally:
        patch.undo()
    assert until * 1000 == their_end_ms
    assert _asked(token) == _asked(theirs)


def _asked(token: str) -> tuple[str, dict[str, list[str]]]:
    """Return a token's address and query without User-Agent, which is not signed."""
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    query = parse_qs(urlsplit(url).query, strict_parsing=True)
    assert query.pop("User-Agent")
    return url.partition("?")[0], query


@settings(max_examples=50)
@given(
    region=REGIONS,
    credentials=CREDENTIALS,
    at=TIMES,
    user=st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=20),
    port=st.sampled_from([5432, 6432]),
)
def test_database_password_equals_botocores_token(
    region: str, credentials: Credentials, at: datetime, user: str, port: int
) -> None:
    host = "proxy-abc.eu-central-1.rds.amazonaws.com"
    url = f"postgresql://{user}@{host}:{port}/metrics?sslmode=require"
    ours = rds_token(url, region, credentials, at)
    events = HierarchicalEmitter()  # kept in a variable because botocore's signer has only a weak reference
    signer = RequestSigner(ServiceId("rds"), region, "rds", "v4", of_botocore(credentials), events)
    client: Any = type("Client", (), {"_request_signer": signer, "meta": type("Meta", (), {"region_name": region})})
    patch = at_that_time(at)
    try:
        theirs = generate_db_auth_token(client, host, port, user)
    finally:
        patch.undo()
    assert ours.partition("?")[0] == theirs.partition("?")[0]
    assert dict(parse_qsl(ours.partition("?")[2])) == dict(parse_qsl(theirs.partition("?")[2]))


@given(password=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=60))
def test_libpq_decodes_the_password_from_the_url(password: str) -> None:
    url = with_password("postgresql://reader@host:6432/metrics?sslmode=require", password)
    assert psycopg.conninfo.conninfo_to_dict(url) == {
        "user": "reader",
        "password": password,
        "host": "host",
        "port": "6432",
        "dbname": "metrics",
        "sslmode": "require",
    }


# --- chosen by variables ----------------------------------------------------------------------------------------------


@pytest.fixture
def as_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }.items():
        monkeypatch.setenv(name, value)


NAMES = ("KAFKA_AUTHENTICATION", "OPENSEARCH_AUTHENTICATION", "METRICS_DATABASE_AUTHENTICATION")


def test_without_authentication_variables_signs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    assert authentication.kafka_client_config() == {}
    assert authentication.opensearch_auth() is None
    assert authentication.database_url("postgresql://u:p@127.0.0.1/d") == "postgresql://u:p@127.0.0.1/d"


@pytest.mark.parametrize("name", NAMES)
def test_unknown_authentication_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "kerberos")
    ask: Callable[[], object] = {
        "KAFKA_AUTHENTICATION": authentication.kafka_client_config,
        "OPENSEARCH_AUTHENTICATION": authentication.opensearch_auth,
        "METRICS_DATABASE_AUTHENTICATION": lambda: authentication.database_url("postgresql://h/d"),
    }[name]
    with pytest.raises(Stop, match=f"{name}.*kerberos"):
        ask()


def test_kafka_client_requests_tokens_on_demand(monkeypatch: pytest.MonkeyPatch, as_a_role: None) -> None:
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    made = authentication.kafka_client_config()
    assert (made["security.protocol"], made["sasl.mechanisms"]) == ("SASL_SSL", "OAUTHBEARER")
    token, until = made["oauth_cb"]("")
    address, query = _asked(token)
    assert address == "https://kafka.eu-central-1.amazonaws.com/"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Security-Token"] == ["token"]
    assert 0 < until - datetime.now(UTC).timestamp() <= 900


def test_kafka_clients_reconnect_slower_than_a_small_broker(monkeypatch: pytest.MonkeyPatch, as_a_role: None) -> None:
    """A t3.small accepts four new connections with IAM a second; by default a client tries ten times.

    https://docs.aws.amazon.com/msk/latest/developerguide/limits.html
    """
    monkeypatch.setenv("KAFKA_AUTHENTICATION", "aws_msk_iam")
    made, sparks = authentication.kafka_client_config(), authentication.spark_kafka_options("group")
    for name in ("reconnect.backoff.ms", "reconnect.backoff.max.ms"):
        assert 1_000 <= made[name] <= 10_000
        assert sparks[f"kafka.{name}"] == str(made[name])
    # The client accepts the properties.
    settings: dict[str, Any] = made | {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    AdminClient(settings)


def test_each_database_connection_has_its_own_password(monkeypatch: pytest.MonkeyPatch, as_a_role: None) -> None:
    monkeypatch.setenv("METRICS_DATABASE_AUTHENTICATION", "aws_rds_iam")
    moments = iter([datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC)])
    monkeypatch.setattr(authentication, "_now", lambda: next(moments))
    address = authentication.database_url("postgresql://reader@host/metrics?sslmode=require")
    assert callable(address)
    first, second = (str(psycopg.conninfo.conninfo_to_dict(address())["password"]) for _ in range(2))
    assert first.startswith("host:5432/?")
    assert "DBUser=reader" in first
    assert "20261121T000000Z" in first
    assert "20261122T000000Z" in second


# --- the role's credentials -------------------------------------------------------------------------------------------


class Endpoint:
    """Answers that return a role's credentials, as Lambda does to a restored function."""

    answers: list[tuple[int, dict[str, str] | str]]

    def answer(self, asked: Asked) -> Answer:
        status, answer = self.answers.pop(0)
        body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        return status if asked.headers["Authorization"] == "for us" else 401, {}, body


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    endpoint = Endpoint()
    with http_server(endpoint.answer) as url:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "for us")
        yield endpoint


def credentials_response(key: str, until: datetime) -> tuple[int, dict[str, str]]:
    return 200, {
        "AccessKeyId": key,
        "SecretAccessKey": "secret",
        "Token": "token",
        "Expiration": until.isoformat().replace("+00:00", "Z"),
    }


def test_role_credentials_are_reused_until_shortly_before_expiry(endpoint: Endpoint) -> None:
    begin = datetime(2026, 11, 21, tzinfo=UTC)
    clock = [begin.timestamp()]
    credentials = RoleCredentials(now=lambda: clock[0])
    endpoint.answers = [
        credentials_response("first", begin + timedelta(hours=1)),
        credentials_response("second", begin + timedelta(hours=2)),
    ]
    assert credentials() == Credentials("first", "secret", "token")
    clock[0] += 3000
    assert credentials().access_key == "first"
    clock[0] += 400
    assert credentials().access_key == "second"
    assert endpoint.answers == []


@pytest.mark.parametrize("answer", [(500, "{}"), (200, "not JSON"), (200, "{}"), (200, "[]"), (404, "")])
def test_credentials_that_cannot_be_fetched_are_a_retry(endpoint: Endpoint, answer: tuple[int, str]) -> None:
    endpoint.answers = [answer]
    with pytest.raises(Retry, match="credentials"):
        RoleCredentials()()


def test_repr_of_credentials_shows_no_secret() -> None:
    shown = repr(Credentials("AKID", "the secret", "the token"))
    assert "AKID" in shown
    assert "the secret" not in shown
    assert "the token" not in shown
