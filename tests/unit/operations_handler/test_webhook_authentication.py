"""The authentication of webhook endpoints over HTTP: its secrets are sealed, and never shown."""

import datetime
import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from masscomm.domain.time_limits import WEBHOOK_SECRET_OVERLAP_S
from masscomm.domain.webhook_authentication import sealing_context
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from tests.support.harness.chain import NOW
from tests.unit.operations_handler.test_webhooks_route import SEVEN, URL, Setting

SECRET = "s3cr3t-value"
OAUTH = {
    "type": "oauth2",
    "token_url": "https://login.example.org/token",
    "client_id": "shop",
    "client_secret": SECRET,
    "scope": "events",
}
BEARER = {"type": "bearer", "token": SECRET}


def certificate(days: int = 30, password: bytes | None = None) -> dict[str, str]:
    """Return a certificate that is valid for some days after NOW, and its private key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.fromtimestamp(NOW / 1000, datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "masscomm")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=60))
    signed = builder.not_valid_after(now + datetime.timedelta(days=days)).sign(key, hashes.SHA256())
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    public = signed.public_bytes(serialization.Encoding.PEM)
    return {"type": "mtls", "certificate": public.decode(), "private_key": private.decode()}


@pytest.fixture
def setting() -> Setting:
    return Setting()


def created(setting: Setting, authentication: Any = BEARER, **fields: Any) -> Any:
    return setting.create(authentication=authentication, **fields)["endpoint"]


def stored(setting: Setting, id_: str) -> Endpoint:
    key = EndpointKey.of_id(id_)
    assert key is not None
    return setting.webhooks.endpoints.stored[key]


def opened(setting: Setting, id_: str) -> Any:
    endpoint = stored(setting, id_)
    assert endpoint.authentication is not None
    return setting.route.box.open(endpoint.authentication.sealed, sealing_context(id_, endpoint.url)).values


@pytest.mark.parametrize(
    ("given", "sealed", "shown"),
    [
        (BEARER, {"token": SECRET}, {}),
        (
            {"type": "basic", "username": "ada", "password": SECRET},
            {"username": "ada", "password": SECRET},
            {"username": "ada"},
        ),
        (
            {"type": "headers", "headers": {"X-Key": SECRET, "a": "b c"}},
            {"headers": {"x-key": SECRET, "a": "b c"}},
            {"headers": ["a", "x-key"]},
        ),
        (
            OAUTH,
            {name: each for name, each in OAUTH.items() if name != "type"} | {"client_authentication": "basic"},
            {
                "token_url": OAUTH["token_url"],
                "client_id": "shop",
                "scope": "events",
                "client_authentication": "basic",
            },
        ),
    ],
)
def test_credentials_are_sealed_and_not_shown(
    setting: Setting, given: dict[str, Any], sealed: dict[str, Any], shown: dict[str, Any]
) -> None:
    endpoint = created(setting, given)
    since = {"since": "2023-11-14T22:13:20Z", "previous_until": None}
    assert endpoint["authentication"] == {"type": given["type"], **since, **shown}
    assert setting.route.show(endpoint["id"], SEVEN) == endpoint
    assert opened(setting, endpoint["id"]) == sealed
    everything = json.dumps(endpoint) + repr(setting.webhooks.endpoints.stored) + repr(setting.audit_log.entries)
    assert SECRET not in everything
    assert SECRET.encode() not in stored(setting, endpoint["id"]).authentication.sealed  # type: ignore[union-attr]


def test_a_client_certificate_shows_its_subject_and_end(setting: Setting) -> None:
    endpoint = created(setting, certificate(30))
    assert endpoint["authentication"]["certificate"] == "CN=masscomm"
    assert endpoint["authentication"]["certificate_until"] == "2023-12-14T22:13:20Z"
    assert "private_key" not in endpoint["authentication"]


def test_endpoint_without_credentials_shows_null(setting: Setting) -> None:
    assert created(setting, None)["authentication"] is None
    assert setting.create()["endpoint"]["authentication"] is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("bearer", ""),
        ([], ""),
        ({}, ".type"),
        ({"type": "digest"}, ".type"),
        ({"type": ["bearer"]}, ".type"),
        ({"type": "bearer"}, ".token"),
        ({"type": "bearer", "token": ""}, ".token"),
        ({"type": "bearer", "token": 7}, ".token"),
        ({"type": "bearer", "token": "a b"}, ".token"),
        ({"type": "bearer", "token": "a\r\nx: y"}, ".token"),
        ({"type": "bearer", "token": "a" * 4_001}, ".token"),
        ({"type": "bearer", "token": "a", "password": "b"}, ".password"),
        ({"type": "bearer", "token": "a", "pin": "b"}, ".pin"),
        ({"type": "basic", "username": "a:b", "password": "c"}, ".username"),
        ({"type": "basic", "username": "a", "password": "c\n"}, ".password"),
        ({"type": "headers", "headers": {}}, ".headers"),
        ({"type": "headers", "headers": ["x"]}, ".headers"),
        ({"type": "headers", "headers": {f"x-{number}": "a" for number in range(11)}}, ".headers"),
        ({"type": "headers", "headers": {"x y": "a"}}, ".headers"),
        ({"type": "headers", "headers": {"x:": "a"}}, ".headers"),
        ({"type": "headers", "headers": {"x": "a\r\ny: z"}}, ".headers"),
        ({"type": "headers", "headers": {"x": " a"}}, ".headers"),
        ({"type": "headers", "headers": {"x": 7}}, ".headers"),
        ({"type": "headers", "headers": {"x": "a", "X": "b"}}, ".headers"),
        ({"type": "headers", "headers": {"x": "a" * 4_001}}, ".headers"),
        (OAUTH | {"token_url": "http://login.example.org/"}, ".token_url"),
        (OAUTH | {"token_url": "https://127.0.0.1/"}, ".token_url"),
        (OAUTH | {"token_url": 7}, ".token_url"),
        (OAUTH | {"client_authentication": "jwt"}, ".client_authentication"),
        (OAUTH | {"scope": ""}, ".scope"),
        ({"type": "mtls", "certificate": "x", "private_key": "x"}, ".certificate"),
        ({"type": "mtls", "certificate": "a" * 16_001, "private_key": "x"}, ".certificate"),
        (certificate(-1), ".certificate"),
        (certificate() | {"private_key": certificate()["private_key"]}, ".private_key"),
        (certificate() | {"private_key": "x"}, ".private_key"),
        (certificate(password=b"secret"), ".private_key"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(setting: Setting, given: Any, field: str) -> None:
    with pytest.raises(Problem) as refused:
        created(setting, given)
    assert refused.value.status == 400
    assert [each.field for each in refused.value.errors] == [f"authentication{field}"]
    assert setting.webhooks.endpoints.stored == {}


@pytest.mark.kills(guard="webhook_authentication.reserved_headers")
@pytest.mark.parametrize("name", ["Host", "content-length", "Webhook-Signature", "proxy-authorization", "expect"])
def test_headers_that_masscomm_sets_are_refused(setting: Setting, name: str) -> None:
    with pytest.raises(Problem):
        created(setting, {"type": "headers", "headers": {name: "a"}})


def test_a_change_keeps_the_previous_credentials_for_a_day(setting: Setting) -> None:
    id_ = created(setting)["id"]
    setting.clock.advance(60)
    changed = setting.change(id_, authentication={"type": "bearer", "token": "new"})
    assert changed["authentication"]["previous_until"] == "2023-11-15T22:14:20Z"
    now_ms = setting.clock.now_ms()
    assert len(stored(setting, id_).authentications(now_ms)) == 2
    assert len(stored(setting, id_).authentications(now_ms + WEBHOOK_SECRET_OVERLAP_S * 1000)) == 1
    assert opened(setting, id_) == {"token": "new"}
    entry = setting.audit_log.entries[-1]
    assert (entry.action, entry.detail) == ("webhook.changed", "authentication: hooks.example.org, enabled")


def test_removed_credentials_are_gone_at_once(setting: Setting) -> None:
    id_ = created(setting)["id"]
    assert setting.change(id_, authentication=None)["authentication"] is None
    assert stored(setting, id_).authentications(NOW) == []
    # New ones have no predecessor: this is how leaked credentials are replaced.
    assert setting.change(id_, authentication=BEARER)["authentication"]["previous_until"] is None


def test_other_changes_keep_the_credentials(setting: Setting) -> None:
    id_ = created(setting)["id"]
    setting.change(id_, description="shop", url="https://hooks.example.org/another/path")
    assert opened(setting, id_) == {"token": SECRET}


@pytest.mark.guarantee("webhooks.credentials_of_one_server")
@pytest.mark.kills(guard="webhook_authentication.other_server")
@pytest.mark.parametrize("url", ["https://other.example.org/a", "https://hooks.example.org:8443/a"])
def test_credentials_stay_with_their_server(setting: Setting, url: str) -> None:
    """A caller who may change the address must not get the credentials sent to a server of its own."""
    id_ = created(setting)["id"]
    with pytest.raises(Problem) as refused:
        setting.change(id_, url=url)
    assert [each.field for each in refused.value.errors] == ["authentication"]
    assert stored(setting, id_).url == URL
    changed = setting.change(id_, url=url, authentication={"type": "bearer", "token": "new"})
    # The previous credentials are not for this server.
    assert changed["authentication"]["previous_until"] is None
    assert len(stored(setting, id_).authentications(NOW)) == 1
    assert opened(setting, id_) == {"token": "new"}


def test_a_certificate_needs_tls(setting: Setting) -> None:
    setting.route = replace(setting.route, loopback=True)
    with pytest.raises(Problem) as refused:
        created(setting, certificate(), url="http://127.0.0.1:8080/")
    assert [each.field for each in refused.value.errors] == ["url"]


def test_new_credentials_end_a_failure(setting: Setting) -> None:
    id_ = created(setting)["id"]
    endpoint = stored(setting, id_)
    setting.webhooks.endpoints.stored[endpoint.key] = replace(endpoint, failing_since_ms=NOW, failed_probes=3)
    setting.change(id_, authentication=BEARER)
    assert stored(setting, id_).failing_since_ms is None


def test_a_repeated_creation_has_the_same_endpoint(setting: Setting) -> None:
    first, _ = setting.create_under("k", authentication=BEARER)
    again, replayed = setting.create_under("k", authentication=BEARER)
    assert (again, replayed) == (first, True)
    with pytest.raises(Problem) as refused:
        setting.create_under("k", authentication={"type": "bearer", "token": "other"})
    assert refused.value.status == 422


@pytest.mark.kills(guard="webhook_authentication.digest")
def test_the_digest_of_a_creation_needs_a_key(setting: Setting) -> None:
    """Somebody who reads the table could otherwise guess passwords from the digest of the request."""
    digests = []
    for keys in ({"current": "1", "1": "a" * 32}, {"current": "1", "1": "b" * 32}):
        other = Setting()
        other.webhooks.keys.read = partial(json.dumps, keys)
        other.create_under("k", authentication={"type": "basic", "username": "ada", "password": "password"})
        ((request, _),) = other.webhooks.endpoints._requests.values()
        digests.append(request.digest)
    assert digests[0] != digests[1]


def test_without_kms_nothing_is_stored(setting: Setting) -> None:
    keys: Any = setting.route.box.keys
    keys.failing = Retry("KMS did not answer")
    with pytest.raises(Retry):
        created(setting)
    assert setting.webhooks.endpoints.stored == {}
    assert setting.create()["endpoint"]["authentication"] is None


def test_another_tenants_endpoint_is_unknown(setting: Setting) -> None:
    id_ = created(setting)["id"]
    with pytest.raises(Problem) as refused:
        setting.change(id_, Clubs(frozenset({8})), authentication=None)
    assert refused.value.status == 404
