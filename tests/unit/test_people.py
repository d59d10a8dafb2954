"""The access tokens of people at both authorizers, the local gateway's and the deployed one, which agree."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.cdk.handlers import authorizer
from local.emulators.key_authorizer import KeyAuthorizer, RequestAuthorizer
from masscomm.clock import SystemClock
from masscomm.errors import Retry
from masscomm.http.access_tokens import AccessTokens, SigningKeys
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import ApiKey
from tests.support.harness.token_issuer import ISSUER, TokenIssuer

ARN = "arn:aws:execute-api:eu-central-1:000000000000:api/live/GET/v1/metrics"
DENIED = "nobody", None


class OneKey(ApiKeys):
    """A table in which every key is valid for club 1."""

    def __init__(self) -> None: ...

    def find(self, digest: str) -> ApiKey:
        return ApiKey(digest=digest, name="n", clubs="1", scopes="read", created_at=1)

    def record_use(self, digest: str, now_s: int) -> bool:
        return True


class Authorizers:
    def __init__(self) -> None:
        self.issuer = TokenIssuer(SystemClock())
        tokens = self.issuer.verifier()
        self.local = RequestAuthorizer(keys=KeyAuthorizer(keys=OneKey(), clock=SystemClock()), tokens=tokens)

    def ask(self, headers: dict[str, str]) -> tuple[str, dict[str, str] | None]:
        """Return the principal and the context that both authorizers have for a request; None if they deny it."""
        answer = authorizer.handler({"methodArn": ARN, "headers": headers}, None)
        assert answer["usageIdentifierKey"] == "people"
        (statement,) = answer["policyDocument"]["Statement"]
        allowed = statement["Effect"] == "Allow"
        found = self.local({name.lower(): value for name, value in headers.items()})
        assert (found is not None) == allowed
        if found is None:
            assert answer["context"] == {"club_ids": ""}
            return answer["principalId"], None
        assert found == {"principalId": answer["principalId"], **answer["context"]}
        assert all(type(value) is str for value in answer["context"].values())
        return answer["principalId"], answer["context"]


@pytest.fixture
def authorizers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Authorizers]:
    found = Authorizers()
    for name, value in (
        ("OIDC_ISSUER", ISSUER.issuer),
        ("OIDC_AUDIENCE", ISSUER.audience),
        ("OIDC_KEYS_URL", ISSUER.keys_url),
        ("PEOPLE_USAGE_KEY", "people"),
    ):
        monkeypatch.setenv(name, value)

    def verifier(issuer: Any, clock: Any) -> AccessTokens:
        keys = SigningKeys(url=issuer.keys_url, clock=clock, fetch=found.issuer.read_keys)
        return AccessTokens(issuer=issuer, keys=keys, clock=clock)

    monkeypatch.setattr(AccessTokens, "of", verifier)
    authorizer._access_tokens.cache_clear()
    yield found
    authorizer._access_tokens.cache_clear()


@pytest.mark.parametrize("header", ["Authorization", "authorization", "AUTHORIZATION"])
def test_a_person_has_the_context_of_the_token(authorizers: Authorizers, header: str) -> None:
    token = authorizers.issuer.token(roles=["sender"], clubs=[7, 8])
    assert authorizers.ask({header: f"Bearer {token}"}) == (
        "person:ada",
        {
            "club_ids": "7,8",
            "scopes": "read send send:content users:read",
            "requests_a_minute": "600",
            "recipients_a_day": "1000000",
        },
    )


def test_a_person_without_role_and_club_has_no_permission(authorizers: Authorizers) -> None:
    """The functions refuse such a request with 403, because the person is known."""
    token = authorizers.issuer.token(roles=None, clubs=None)
    assert authorizers.ask({"Authorization": f"Bearer {token}"}) == ("person:ada", {"club_ids": "", "scopes": ""})


@pytest.mark.guarantee("people.invalid_token_is_denied_by_both")
def test_both_authorizers_deny_hostile_tokens(authorizers: Authorizers) -> None:
    issuer = authorizers.issuer
    now_s = issuer.clock.now_ms() // 1000
    for token in (
        "",
        "mc_key",
        issuer.token(exp=now_s - 31),
        issuer.token(aud="other"),
        issuer.signed_with_public_key(),
    ):
        assert authorizers.ask({"Authorization": f"Bearer {token}"}) == DENIED, token


def test_a_request_with_key_and_token_is_denied(authorizers: Authorizers) -> None:
    for header in (f"Bearer {authorizers.issuer.token()}", "Bearer", "bearer x"):
        assert authorizers.ask({"Authorization": header, "x-api-key": "mc_key"}) == DENIED, header


def test_tokens_are_denied_without_an_issuer(authorizers: Authorizers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OIDC_ISSUER")
    authorizers.local = replace(authorizers.local, tokens=None)
    assert authorizers.ask({"Authorization": f"Bearer {authorizers.issuer.token()}"}) == DENIED


def test_unreadable_issuers_keys_are_an_error(authorizers: Authorizers) -> None:
    authorizers.issuer.failing = Retry("down")
    headers = {"authorization": f"Bearer {authorizers.issuer.token()}"}
    with pytest.raises(Retry):
        authorizer.handler({"methodArn": ARN, "headers": headers}, None)
    with pytest.raises(Retry):
        authorizers.local(headers)


def test_other_schemes_leave_the_key_to_decide(authorizers: Authorizers) -> None:
    found = authorizers.local({"authorization": "Basic YTpi", "x-api-key": "mc_key"})
    assert json.loads(json.dumps(found))["club_ids"] == "1"
    assert authorizers.local({"authorization": "Basic YTpi"}) is None
