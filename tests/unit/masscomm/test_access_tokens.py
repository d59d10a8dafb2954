"""Access tokens of people: valid ones have the context of their roles and clubs, hostile ones are refused."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.key_limits import LIMITS
from masscomm.errors import Retry, Stop
from masscomm.http.access_tokens import MAX_KEYS_BYTES, InvalidToken, Issuer, bearer_token, fetch
from masscomm.http.scopes import (
    ALL_SCOPES,
    ROLE_LIMITS,
    ROLE_SCOPES,
    Role,
    Scope,
    role_limits,
    scopes_of,
    scopes_of_roles,
)
from masscomm.http.tenant import ALL_CLUBS, NO_CLUBS, Clubs, clubs_of
from tests.support.harness.token_issuer import ISSUER, TokenIssuer, unsigned
from tests.support.servers.http_server import Answer, Asked, http_server

READER = {Scope.READ, Scope.USERS_READ}


@pytest.fixture(scope="module")
def signed() -> TokenIssuer:
    """An issuer for tests that change neither its keys nor its clock."""
    return TokenIssuer()


# --- valid tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_id", ["rsa", "ec"])
@pytest.mark.parametrize("media_type", ["JWT", "at+jwt", "application/at+jwt"])
def test_a_token_has_the_context_of_its_claims(signed: TokenIssuer, key_id: str, media_type: str) -> None:
    token = signed.token(key_id, {"typ": media_type}, roles=["sender"], clubs=[7, 8])
    context = signed.verifier().context(token)
    assert context["principalId"] == "person:ada"
    assert clubs_of(context) == Clubs(frozenset({7, 8}))
    assert scopes_of(context) == READER | {Scope.SEND, Scope.SEND_CONTENT}


@pytest.mark.parametrize(
    ("roles", "scopes"),
    [
        (["viewer"], READER),
        (["sender"], READER | {Scope.SEND, Scope.SEND_CONTENT}),
        (["developer"], {Scope.READ, Scope.WEBHOOKS}),
        (["admin"], ALL_SCOPES),
        (["viewer", "sender", "root"], READER | {Scope.SEND, Scope.SEND_CONTENT}),
        *((nothing, set()) for nothing in (None, [], "admin", ["Admin"], [["admin"]], [None], {"admin": 1}, ["send"])),
    ],
)
@pytest.mark.guarantee("people.unknown_role_has_no_scope")
def test_roles_have_their_scopes_alone(signed: TokenIssuer, roles: object, scopes: set[Scope]) -> None:
    assert scopes_of_roles(roles) == scopes
    assert scopes_of(signed.verifier().context(signed.token(roles=roles))) == scopes


@pytest.mark.guarantee("limits.people")
@pytest.mark.kills(guard="limits.people")
@pytest.mark.parametrize(
    ("roles", "limits"),
    [
        (["viewer"], {"requests_a_minute": "9"}),
        (["sender"], {"requests_a_minute": "20", "recipients_a_day": "5"}),
        # Several roles permit what one of them permits.
        (["viewer", "sender", "root"], {"requests_a_minute": "20"}),
        (["sender", "admin"], {}),
        (["root"], {}),
        (None, {}),
    ],
)
def test_people_have_the_limits_of_their_roles(signed: TokenIssuer, roles: object, limits: dict[str, str]) -> None:
    of_roles = role_limits(
        '{"viewer": {"requests_a_minute": 9}, "sender": {"requests_a_minute": 20, "recipients_a_day": 5}}'
    )
    verifier = replace(signed.verifier(), issuer=replace(ISSUER, role_limits=of_roles))
    context = verifier.context(signed.token(roles=roles))
    assert {kind.setting: context[kind.setting] for kind in LIMITS if kind.setting in context} == limits


def test_roles_that_make_keys_have_no_limit_by_default() -> None:
    """A key has no higher limit than its maker, so that such a person could make no key without limits."""
    makers = {role for role, scopes in ROLE_SCOPES.items() if Scope.ADMIN in scopes}
    assert makers
    assert {role for role in Role if not ROLE_LIMITS[role]} == makers


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"root": {}}',
        '{"sender": 5}',
        '{"sender": {"recipients": 5}}',
        '{"sender": {"recipients_a_day": 0}}',
        '{"sender": {"recipients_a_day": "5"}}',
        '{"sender": {"recipients_a_day": true}}',
    ],
)
def test_malformed_limits_of_roles_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("OIDC_ISSUER", ISSUER.issuer),
        ("OIDC_AUDIENCE", ISSUER.audience),
        ("OIDC_KEYS_URL", ISSUER.keys_url),
        ("OIDC_ROLE_LIMITS", text),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(Stop, match="OIDC_ROLE_LIMITS"):
        Issuer.from_environment()


def test_roles_and_clubs_are_read_from_the_configured_claims(
    signed: TokenIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims of the usual names have no effect then."""
    for name, value in (
        ("OIDC_ISSUER", ISSUER.issuer),
        ("OIDC_AUDIENCE", ISSUER.audience),
        ("OIDC_KEYS_URL", ISSUER.keys_url),
        ("OIDC_ROLES_CLAIM", "cognito:groups"),
        ("OIDC_CLUBS_CLAIM", "https://masscomm.example/clubs"),
    ):
        monkeypatch.setenv(name, value)
    issuer = Issuer.from_environment()
    assert issuer is not None
    claims: dict[str, Any] = {"cognito:groups": ["viewer"], "https://masscomm.example/clubs": [9]}
    token = signed.token(roles=["admin"], clubs="*", **claims)
    context = replace(signed.verifier(), issuer=issuer).context(token)
    assert scopes_of(context) == READER
    assert clubs_of(context) == Clubs(frozenset({9}))


def test_a_sender_is_a_viewer_and_an_admin_is_each_role() -> None:
    viewer, sender, developer, admin = (scopes_of_roles([role]) for role in Role)
    assert viewer < sender < admin == ALL_SCOPES
    assert developer < admin
    assert not sender & {Scope.SEND_MANDATORY, Scope.SEND_CRITICAL, Scope.OPERATE, Scope.ADMIN}


@pytest.mark.parametrize(
    ("clubs", "seen"),
    [
        ([7], Clubs(frozenset({7}))),
        ("*", ALL_CLUBS),
        *(
            (malformed, NO_CLUBS)
            for malformed in (
                *(None, [], "7", 7, "1,2", ["7"], ["*"], [True], [7.0], [0], [-7], [7, "8"], [2**63], {"7": 1}),
                *({"all_clubs": "true"}, "true", True, "* ", [[7]]),
            )
        ),
    ],
)
@pytest.mark.guarantee("people.malformed_clubs_see_nothing")
@pytest.mark.kills(guard="tokens.malformed_clubs")
def test_malformed_clubs_permit_no_club(signed: TokenIssuer, clubs: object, seen: Clubs) -> None:
    context = signed.verifier().context(signed.token(clubs=clubs, roles=["admin"], all_clubs="true", club_ids="9"))
    assert clubs_of(context) == seen


# --- hostile tokens ---------------------------------------------------------------------------------------------------

HOSTILE: dict[str, Callable[[TokenIssuer], str]] = {
    "not a token": lambda _: "mc_key",
    "no text": lambda _: "",
    "two parts": lambda issuer: unsigned({"alg": "RS256", "kid": "rsa"}, issuer.claims()),
    "alg none": lambda issuer: unsigned({"alg": "none", "kid": "rsa"}, issuer.claims()) + ".",
    "alg NONE": lambda issuer: unsigned({"alg": "NONE", "kid": "rsa"}, issuer.claims()) + ".",
    "no alg": lambda issuer: unsigned({"kid": "rsa"}, issuer.claims()) + ".",
    "HS256 with the public key": lambda issuer: issuer.signed_with_public_key(),
    "the algorithm of another key": lambda issuer: issuer.token("rsa", {"kid": "ec"}),
    "a changed payload": lambda issuer: (
        unsigned({"alg": "RS256", "kid": "rsa", "typ": "JWT"}, issuer.claims(clubs="*"))
        + "."
        + issuer.token().split(".")[2]
    ),
    "no signature": lambda issuer: issuer.token().rpartition(".")[0] + ".",
    "another issuer": lambda issuer: issuer.token(iss="https://sign-in.example/"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "another audience": lambda issuer: issuer.token(aud="masscomm-console"),
    "other audiences": lambda issuer: issuer.token(aud=["masscomm2", "a"]),
    "no audience": lambda issuer: issuer.token(aud=None),
    "audience of another type": lambda issuer: issuer.token(aud=7),
    "no subject": lambda issuer: issuer.token(sub=None),
    "empty subject": lambda issuer: issuer.token(sub=""),
    "subject of two lines": lambda issuer: issuer.token(sub="ada\nadmin"),
    "long subject": lambda issuer: issuer.token(sub="a" * 201),
    "subject of another type": lambda issuer: issuer.token(sub=7),
    "no end": lambda issuer: issuer.token(exp=None),
    "no beginning": lambda issuer: issuer.token(iat=None),
    "end of another type": lambda issuer: issuer.token(exp="4000000000"),
    "end true": lambda issuer: issuer.token(exp=True),
    "infinite end": lambda issuer: issuer.token(exp=float("inf")),
    "end of hundreds of digits": lambda issuer: issuer.token(exp=int("9" * 400)),
    "beginning of hundreds of digits": lambda issuer: issuer.token(iat=-int("9" * 400)),
    "end not a number": lambda issuer: issuer.token(exp=float("nan")),
    "issued ahead": lambda issuer: issuer.token(iat=issuer.clock.now_ms() // 1000 + 31),
    "valid ahead": lambda issuer: issuer.token(nbf=issuer.clock.now_ms() // 1000 + 31),
    "beginning of another type": lambda issuer: issuer.token(nbf=[1]),
    "no key id": lambda issuer: issuer.token("rsa", {"kid": None}),
    "key id of another type": lambda issuer: unsigned({"alg": "RS256", "kid": 1}, issuer.claims()) + ".AA",
    "a key in the header": lambda issuer: issuer.token("rsa", {"kid": "new", "jwk": issuer.published[0]}),
    "keys elsewhere": lambda issuer: issuer.token("rsa", {"kid": "new", "jku": "https://evil.example/keys"}),
    "critical extension": lambda issuer: issuer.token("rsa", {"crit": ["exp"]}),
    "logout token": lambda issuer: issuer.token("rsa", {"typ": "logout+jwt"}),
    "huge": lambda issuer: issuer.token(padding="a" * 8_192),
    "huge and unreadable": lambda _: "." * 1_000_000,
    "not ASCII": lambda issuer: issuer.token() + "é",
    "deep header": lambda _: f"{unsigned_text('[' * 5_000)}.e30.AA",
}


def unsigned_text(text: str) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.guarantee("people.invalid_token_is_refused")
@pytest.mark.kills(guard="tokens.size")
@pytest.mark.kills(guard="tokens.time_of_any_size")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_token_is_refused(signed: TokenIssuer, kind: str) -> None:
    verifier = signed.verifier()
    assert verifier.context(signed.token())["principalId"] == "person:ada"
    with pytest.raises(InvalidToken):
        verifier.context(HOSTILE[kind](signed))


def test_a_huge_token_is_refused_before_it_is_parsed(signed: TokenIssuer) -> None:
    verifier, reads = signed.verifier(), signed.reads
    with pytest.raises(InvalidToken, match="too large"):
        verifier.context(signed.token(padding="a" * 8_192))
    assert signed.reads == reads


@pytest.mark.kills(guard="tokens.expired")
@pytest.mark.guarantee("people.expired_token_is_refused")
def test_a_token_is_refused_30_s_after_its_end() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier, token = issuer.verifier(), issuer.token("ec", exp=clock.now_ms() // 1000 + 60)
    clock.advance(89)
    assert verifier.context(token)
    clock.advance(1)
    with pytest.raises(InvalidToken, match="expired"):
        verifier.context(token)


def test_a_token_of_a_slightly_fast_clock_is_accepted(signed: TokenIssuer) -> None:
    at = signed.clock.now_ms() // 1000 + 30
    assert signed.verifier().context(signed.token(iat=at, nbf=at))


# --- the issuer's keys ------------------------------------------------------------------------------------------------


def test_keys_are_read_once_an_hour() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier = issuer.verifier()
    for expected in (1, 1):
        verifier.context(issuer.token())
        assert issuer.reads == expected
    clock.advance(3_599)
    verifier.context(issuer.token())
    assert issuer.reads == 1
    clock.advance(1)
    verifier.context(issuer.token())
    assert issuer.reads == 2


def test_a_new_key_is_read_when_a_token_names_it() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier = issuer.verifier()
    verifier.context(issuer.token())
    issuer.add("next", "ES256")
    clock.advance(30)
    assert verifier.context(issuer.token("next"))
    assert issuer.reads == 2


def test_a_withdrawn_key_is_refused_after_an_hour() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier = issuer.verifier()
    verifier.context(issuer.token())
    issuer.published = [key for key in issuer.published if key["kid"] != "rsa"]
    clock.advance(3_600)
    with pytest.raises(InvalidToken):
        verifier.context(issuer.token())


@pytest.mark.kills(guard="tokens.bounded_refetch")
@pytest.mark.guarantee("people.unknown_keys_are_asked_for_seldom")
def test_unknown_key_ids_do_not_read_keys_each_time() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier = issuer.verifier()
    verifier.context(issuer.token())
    for number in range(60):
        clock.advance(1)
        with pytest.raises(InvalidToken):
            verifier.context(issuer.token("rsa", {"kid": f"made-up-{number}"}))
        assert verifier.context(issuer.token())
    assert issuer.reads == 3


def test_known_keys_serve_while_the_issuer_is_down() -> None:
    clock = FixedClock()
    issuer = TokenIssuer(clock)
    verifier = issuer.verifier()
    verifier.context(issuer.token())
    issuer.failing = Retry("down")
    clock.advance(30)
    with pytest.raises(Retry):
        verifier.context(issuer.token("rsa", {"kid": "new"}))
    assert verifier.context(issuer.token())
    clock.advance(3_600)
    for _ in range(3):
        with pytest.raises(Retry):
            verifier.context(issuer.token())
    assert issuer.reads == 3
    issuer.failing = None
    clock.advance(30)
    assert verifier.context(issuer.token())


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "own", "alg": "HS256"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "own"},
        {"kty": "RSA", "kid": "own"},
        {"kty": ["RSA"], "kid": "own"},
        {"kid": "own"},
        {"kty": "RSA", "kid": 7},
    ],
)
def test_unusable_published_keys_are_ignored(entry: dict[str, Any]) -> None:
    issuer = TokenIssuer()
    issuer.published.append(entry)
    verifier = issuer.verifier()
    assert verifier.context(issuer.token())
    with pytest.raises(InvalidToken):
        verifier.context(issuer.token("rsa", {"kid": "own"}))


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize(
    "changes", [{"bits": 1_024}, {"use": "enc"}, {"alg": "RS512"}, {"alg": "PS256"}], ids=lambda change: str(change)
)
def test_weak_or_misused_keys_verify_no_token(changes: dict[str, Any]) -> None:
    issuer = TokenIssuer()
    issuer.add("weak", "RS256", **changes)
    with pytest.raises(InvalidToken):
        issuer.verifier().context(issuer.token("weak"))


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 7}', b'{"keys": [7]}', b"\xff", b"{}", b"[" * 100_000])
def test_malformed_keys_are_a_fault_of_the_moment(document: bytes) -> None:
    issuer = TokenIssuer()
    issuer.read_keys = lambda _url: document  # type: ignore[method-assign]
    with pytest.raises(Retry):
        issuer.verifier().context(issuer.token())


# --- settings, header and transport -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer a.b.c", "a.b.c"),
        ("bearer  a.b.c ", "a.b.c"),
        ("Bearer", ""),
        ("Basic a", None),
        ("", None),
        (None, None),
        ("Bearera.b.c", None),
    ],
)
def test_only_a_bearer_token_is_read(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize("url", ["http://sign-in.example/keys", "file:///etc/passwd", "", "http://127.0.0.1.example/"])
def test_keys_are_not_read_without_https(url: str) -> None:
    with pytest.raises(Stop):
        Issuer(issuer="https://sign-in.example", audience="masscomm", keys_url=url)


def test_an_issuer_needs_all_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OIDC_ISSUER", "OIDC_AUDIENCE", "OIDC_KEYS_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Issuer.from_environment() is None
    monkeypatch.setenv("OIDC_ISSUER", "https://sign-in.example")
    with pytest.raises(Stop, match="OIDC_AUDIENCE"):
        Issuer.from_environment()


@pytest.fixture
def document_server() -> Iterator[tuple[str, dict[str, Any]]]:
    """An HTTP server with a status, headers and a body that the test sets."""
    content: dict[str, Any] = {"status": 200, "body": b"{}", "headers": {}, "paths": []}

    def answer(asked: Asked) -> Answer:
        content["paths"].append(asked.path)
        return content["status"], content["headers"], content["body"]

    with http_server(answer) as url:
        yield f"{url}/keys", content


def test_keys_are_read_over_http_without_redirects(document_server: tuple[str, dict[str, Any]]) -> None:
    url, content = document_server
    content["body"] = json.dumps({"keys": []}).encode()
    assert json.loads(fetch(url)) == {"keys": []}
    content |= {"status": 302, "headers": {"Location": "/other"}}
    with pytest.raises(Retry, match="302"):
        fetch(url)
    assert content["paths"] == ["/keys", "/keys"]
    content |= {"status": 200, "headers": {}, "body": b"a" * (MAX_KEYS_BYTES + 1)}
    with pytest.raises(Retry):
        fetch(url)


def test_keys_of_a_silent_issuer_are_a_fault_of_the_moment() -> None:
    with pytest.raises(Retry):
        fetch("http://127.0.0.1:1/keys")


def test_the_library_is_imported_for_the_first_token() -> None:
    """Cold starts with API keys do not load it."""
    code = "import sys, masscomm.http.access_tokens; print({'jwt', 'cryptography', 'urllib3'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
