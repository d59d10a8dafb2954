"""The development issuer: a code is issued to the console's address alone, and exchanged once, with its verifier."""

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from local.emulators.gateway import Gateway
from local.emulators.sign_in import CLIENT_ID, PATH, SignIn, challenge_of
from masscomm.clock import FixedClock
from masscomm.http.access_tokens import AccessTokens, InvalidToken, SigningKeys
from masscomm.http.scopes import ALL_SCOPES, Scope, scopes_of
from masscomm.http.tenant import ALL_CLUBS, Clubs, clubs_of

VERIFIER = "v" * 43


class Browser:
    """A person's browser at the console's sign-in."""

    def __init__(self, client: httpx.AsyncClient, sign_in: SignIn, clock: FixedClock) -> None:
        self.client, self.sign_in, self.clock = client, sign_in, clock

    def request(self, **changes: str | None) -> dict[str, str]:
        given = {
            "response_type": "code",
            "client_id": CLIENT_ID,
            "redirect_uri": self.sign_in.redirect_uri,
            "scope": "openid",
            "state": "s&<1>",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            **changes,
        }
        return {name: value for name, value in given.items() if value is not None}

    async def choose(self, user: str, *, origin: str | None = None, **changes: str | None) -> httpx.Response:
        form = self.request(**changes) | {"user": user}
        headers = None if origin is None else {"Origin": origin}
        return await self.client.post(f"{PATH}/authorize", data=form, headers=headers)

    async def code(self, user: str = "sender", **changes: str) -> str:
        response = await self.choose(user, **changes)
        assert response.status_code == 303
        target = urlsplit(response.headers["Location"])
        assert f"{target.scheme}://{target.netloc}{target.path}" == self.sign_in.redirect_uri
        answer = parse_qs(target.query)
        assert answer["state"] == ["s&<1>"]
        return answer["code"][0]

    async def exchange(self, issued: str, **changes: str) -> httpx.Response:
        form = {
            "grant_type": "authorization_code",
            "code": issued,
            "code_verifier": VERIFIER,
            "client_id": CLIENT_ID,
            "redirect_uri": self.sign_in.redirect_uri,
        }
        return await self.client.post(f"{PATH}/token", data=form | changes)

    async def verify(self, token: str) -> dict[str, str]:
        """Return the context that the API has for a token, with the keys that the issuer publishes."""
        document = (await self.client.get(f"{PATH}/keys")).content
        issuer = self.sign_in.issuer
        keys = SigningKeys(url=issuer.keys_url, clock=self.clock, fetch=lambda _url: document)
        return AccessTokens(issuer=issuer, keys=keys, clock=self.clock).context(token)


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    clock = FixedClock()
    sign_in = SignIn(address="", clock=clock)

    async def invoke(_name: str, _payload: bytes) -> Any:
        raise NotImplementedError

    gateway = Gateway(
        [], invoke=invoke, ready=dict, status=dict, authorize=lambda _headers: None, further=sign_in.routes()
    )
    await gateway.start(0)
    sign_in.address = f"http://127.0.0.1:{gateway.port}"
    try:
        async with httpx.AsyncClient(base_url=sign_in.address, trust_env=False) as client:
            yield Browser(client, sign_in, clock)
    finally:
        await gateway.close()


@pytest.mark.parametrize(
    ("user", "clubs", "scopes"),
    [
        ("viewer", Clubs(frozenset({1})), {Scope.READ, Scope.USERS_READ}),
        ("sender", Clubs(frozenset({1})), {Scope.READ, Scope.USERS_READ, Scope.SEND, Scope.SEND_CONTENT}),
        ("developer", Clubs(frozenset({1})), {Scope.READ, Scope.WEBHOOKS}),
        ("admin", ALL_CLUBS, ALL_SCOPES),
    ],
)
async def test_each_ready_user_has_a_token_of_its_role(user: str, clubs: Clubs, scopes: frozenset[Scope]) -> None:
    async with browsing() as browser:
        answer = (await browser.exchange(await browser.code(user))).json()
        context = await browser.verify(answer["access_token"])
        assert context["principalId"] == f"person:{user}"
        assert clubs_of(context) == clubs
        assert scopes_of(context) == scopes
        shown = jwt.decode(answer["id_token"], options={"verify_signature": False})
        assert (shown["aud"], shown["roles"], shown["name"]) == (CLIENT_ID, [user], user.title())


async def test_an_id_token_is_refused_as_access_token() -> None:
    async with browsing() as browser:
        answer = (await browser.exchange(await browser.code())).json()
        with pytest.raises(InvalidToken):
            await browser.verify(answer["id_token"])


async def test_a_code_is_exchanged_once() -> None:
    async with browsing() as browser:
        code = await browser.code()
        assert (await browser.exchange(code)).status_code == 200
        again = await browser.exchange(code)
        assert (again.status_code, again.json()) == (400, {"error": "invalid_grant"})


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": "w" * 43},
        {"code_verifier": challenge_of(VERIFIER)},
        {"code_verifier": ""},
        {"redirect_uri": "http://127.0.0.1/"},
        {"client_id": "other"},
        {"grant_type": "password"},
        {"code": "made-up"},
    ],
)
async def test_a_wrong_exchange_ends_the_code(changes: dict[str, str]) -> None:
    async with browsing() as browser:
        code = await browser.code()
        assert (await browser.exchange(code, **changes)).status_code == 400
        if not changes.keys() & {"grant_type", "code"}:
            assert (await browser.exchange(code)).status_code == 400


async def test_a_refresh_token_is_exchanged_once_for_the_next() -> None:
    async with browsing() as browser:
        assert "refresh_token" not in (await browser.exchange(await browser.code())).json()
        first = (await browser.exchange(await browser.code(scope="openid offline_access"))).json()

        async def refresh(token: str, client_id: str = CLIENT_ID) -> httpx.Response:
            form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
            return await browser.client.post(f"{PATH}/token", data=form)

        second = await refresh(first["refresh_token"])
        assert second.status_code == 200
        assert (await browser.verify(second.json()["access_token"]))["principalId"] == "person:sender"
        assert second.json()["refresh_token"] != first["refresh_token"]
        assert (await refresh(first["refresh_token"])).json() == {"error": "invalid_grant"}
        assert (await refresh(second.json()["refresh_token"], "other")).status_code == 400
        assert (await refresh("")).status_code == 400


async def test_a_code_ends_after_a_minute() -> None:
    async with browsing() as browser:
        code = await browser.code()
        browser.clock.advance(60)
        assert (await browser.exchange(code)).status_code == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "http://evil.example/"},
        {"redirect_uri": None},
        {"client_id": "other"},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"scope": "profile"},
    ],
)
async def test_a_malformed_request_is_not_redirected(changes: dict[str, str | None]) -> None:
    async with browsing() as browser:
        answers = [
            await browser.client.get(f"{PATH}/authorize", params=browser.request(**changes)),
            await browser.choose("admin", **changes),
        ]
        assert [(each.status_code, "Location" in each.headers) for each in answers] == [(400, False)] * 2


async def test_a_longer_address_is_not_the_registered_one() -> None:
    async with browsing() as browser:
        for suffix in ("?a", "../", "#", "/x"):
            response = await browser.choose("admin", redirect_uri=browser.sign_in.redirect_uri + suffix)
            assert response.status_code == 400, suffix


async def test_an_unknown_user_gets_no_code() -> None:
    async with browsing() as browser:
        for user in ("root", "", "Admin"):
            assert (await browser.choose(user)).status_code == 400


async def test_other_origins_and_hosts_are_refused() -> None:
    """A page of another site cannot sign in, nor read the issuer under another name (DNS rebinding)."""
    async with browsing() as browser:
        assert (await browser.choose("admin", origin="http://evil.example")).status_code == 403
        assert (await browser.choose("admin", origin="null")).status_code == 403
        assert (await browser.choose("admin", origin=browser.sign_in.address)).status_code == 303
        for path in ("/console.json", f"{PATH}/keys", f"{PATH}/authorize", f"{PATH}/.well-known/openid-configuration"):
            assert (await browser.client.get(path, headers={"Host": "evil.example"})).status_code == 403, path
        assert (await browser.client.post(f"{PATH}/token", headers={"Host": "evil.example"})).status_code == 403


async def test_the_page_is_inert_and_has_a_strict_policy() -> None:
    async with browsing() as browser:
        page = await browser.client.get(
            f"{PATH}/authorize", params=browser.request(state='"><script>alert(1)</script>')
        )
        assert page.status_code == 200
        assert "<script" not in page.text
        assert re.findall(r'name="user" value="(\w+)"', page.text) == ["viewer", "sender", "developer", "admin"]
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize(("locales", "text"), [("fr de en", "jeder Mandant"), ("fr", "every tenant")])
async def test_the_page_has_the_language_of_the_console(locales: str, text: str) -> None:
    async with browsing() as browser:
        page = await browser.client.get(f"{PATH}/authorize", params=browser.request(ui_locales=locales))
        assert text in page.text


async def test_metadata_and_settings_agree() -> None:
    async with browsing() as browser:
        settings = (await browser.client.get("/console.json")).json()
        metadata = (await browser.client.get(f"{PATH}/.well-known/openid-configuration")).json()
        assert settings["issuer"] == metadata["issuer"] == browser.sign_in.issuer.issuer
        assert metadata["code_challenge_methods_supported"] == ["S256"]
        assert metadata["jwks_uri"] == browser.sign_in.issuer.keys_url
