"""webhook_sender authenticates requests as their endpoint wants. Unreadable secrets delay no other endpoint."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest

from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from masscomm.domain.time_limits import WEBHOOK_SECRET_OVERLAP_S, WEBHOOK_TOKEN_REQUEST_S
from masscomm.domain.webhooks import Endpoint
from masscomm.errors import Retry, Stop
from masscomm.stores.webhook_tokens.port import StoredToken
from masscomm.texts import Text
from tests.support.harness.chain import NOW
from tests.support.harness.events import WebhookSender, occurred
from tests.support.harness.webhooks import KEY, answer, key, url_of

TOKENS = "https://login.example.org/token"
CLIENT: dict[str, Any] = {
    "token_url": TOKENS,
    "client_id": "shop",
    "client_secret": "s3:cret",
    "client_authentication": "basic",
}


class Sender(WebhookSender):
    """webhook_sender with an endpoint that has an authentication."""

    def __init__(self, type_: str, previous: tuple[str, dict[str, Any]] | None = None, **secrets: Any) -> None:
        super().__init__()
        self.authenticate(type_, **secrets)
        if previous is not None:
            endpoint = self.stored()
            self.endpoints.stored[KEY] = replace(
                endpoint,
                previous_authentication=self.authentication(previous[0], **previous[1]),
                previous_authentication_until_ms=NOW + WEBHOOK_SECRET_OVERLAP_S * 1000,
            )

    def stored(self) -> Endpoint:
        return self.endpoints.stored[KEY]

    def authenticate(self, type_: str, **secrets: Any) -> None:
        self.endpoints.stored[KEY] = replace(self.stored(), authentication=self.authentication(type_, **secrets))

    def post(self, *event_ids: str) -> None:
        assert self.send(self.request([occurred(each) for each in event_ids or ("e1",)])) == []

    def authorizations(self, url: str = url_of(KEY)) -> list[str | None]:
        return [headers.get("authorization") for each, headers, _ in self.http.requests if each == url]

    def answer_tokens(self, *values: str, expires_in: int = 3600) -> None:
        self.http.answers[TOKENS] = [*(token(value, expires_in=expires_in) for value in values)]


def token(value: str = "t1", **fields: Any) -> Answer:
    document = {"access_token": value, "token_type": "Bearer", "expires_in": 3600} | fields
    return answer(200, body=json.dumps(document))


@pytest.mark.parametrize(
    ("type_", "secrets", "headers"),
    [
        ("bearer", {"token": "abc"}, {"authorization": "Bearer abc"}),
        ("basic", {"username": "ö", "password": "p:w"}, {"authorization": "Basic w7Y6cDp3"}),
        ("headers", {"headers": {"x-api-key": "k", "x-tenant": "7"}}, {"x-api-key": "k", "x-tenant": "7"}),
    ],
)
def test_a_request_has_its_credentials_and_signature(
    type_: str, secrets: dict[str, Any], headers: dict[str, str]
) -> None:
    sender = Sender(type_, **secrets)
    sender.post("e1", "e2", "e3")
    assert sender.results() == [(f"e{number}", "delivered", 1, 200) for number in (1, 2, 3)]
    for _, sent, _ in sender.http.requests:
        assert sent.items() >= headers.items()
        assert sent["webhook-signature"].startswith("v1,")
    assert sender.data_keys.decrypted == 1


def test_a_client_certificate_is_used_for_its_endpoint_only() -> None:
    sender = Sender("mtls", certificate="C", private_key="K")
    other = sender.endpoint(
        key(8), authentication=sender.authentication("mtls", key(8), certificate="C", private_key="K")
    )
    sender.send(sender.request([occurred("e1")], [KEY, other.key]))
    first, second = sender.http.clients
    assert first is not None
    assert second is not None
    assert (first.certificate, first.private_key, second.certificate) == ("C", "K", "C")
    assert first.id != second.id
    assert "K" not in repr(first)


@pytest.mark.parametrize("refusal", [401, 403])
def test_refused_credentials_give_way_to_the_previous(refusal: int) -> None:
    sender = Sender("bearer", ("basic", {"username": "u", "password": "p"}), token="new")
    sender.http.answers[url_of(KEY)] = [answer(refusal), answer(200)]
    sender.post()
    assert sender.authorizations() == ["Bearer new", "Basic dTpw"]
    assert sender.results() == [("e1", "delivered", 1, 200)]
    ids = {headers["webhook-id"] for _, headers, _ in sender.http.requests}
    assert len(ids) == 1


@pytest.mark.kills(guard="webhook_authentication.overlap")
def test_the_previous_credentials_end_with_the_overlap() -> None:
    sender = Sender("bearer", ("bearer", {"token": "old"}), token="new")
    sender.clock.advance(WEBHOOK_SECRET_OVERLAP_S)
    sender.http.answers[url_of(KEY)] = [answer(401)]
    sender.post()
    assert sender.authorizations() == ["Bearer new"]
    assert sender.results() == [("e1", "retried", 1, 401)]


def test_other_answers_are_not_repeated_with_the_previous() -> None:
    sender = Sender("bearer", ("bearer", {"token": "old"}), token="new")
    sender.http.answers[url_of(KEY)] = [answer(500)]
    sender.post()
    assert sender.authorizations() == ["Bearer new"]


def test_a_refused_certificate_gives_way_to_the_previous() -> None:
    """A server may end the connection in place of an answer."""
    previous = {"certificate": "old", "private_key": "K"}
    sender = Sender("mtls", ("mtls", previous), certificate="new", private_key="K")
    sender.http.answers[url_of(KEY)] = [NoAnswer("the connection failed"), answer(200)]
    sender.post()
    assert [each and each.certificate for each in sender.http.clients] == ["new", "old"]
    assert sender.results() == [("e1", "delivered", 1, 200)]


@pytest.mark.guarantee("events.unreadable_credentials")
@pytest.mark.kills(guard="webhook_authentication.unreadable")
@pytest.mark.parametrize("error", [Retry("KMS did not answer"), Stop("KMS refuses Decrypt")])
def test_without_kms_only_its_own_messages_wait(error: Exception) -> None:
    sender = Sender("bearer", token="abc")
    other = sender.endpoint(key(8))
    sender.data_keys.failing = error
    events = [occurred(f"e{number}") for number in range(20)]
    assert sender.send(sender.request(events, [KEY, other.key])) == []
    assert len(sender.http.ids(other.key)) == 20
    assert sender.http.ids() == []
    # They are neither attempted nor is their endpoint failing.
    assert [each.attempt for each in sender.waiting()] == [0]
    assert sender.stored().failing_since_ms is None
    sender.data_keys.failing = None
    assert sender.retry() == []
    assert len(sender.http.ids()) == 20


def test_credentials_for_another_server_are_not_sent() -> None:
    """Somebody who writes to the table cannot have them sent to a server of their own."""
    sender = Sender("bearer", token="abc")
    sender.endpoints.stored[KEY] = replace(sender.stored(), url="https://other.example.org/")
    sender.post()
    assert sender.http.requests == []
    assert sender.results() == [("e1", "retried", 1, None)]
    assert sender.errors() == ["the stored authentication cannot be read: set it again"]


def test_an_access_token_is_requested_once() -> None:
    sender = Sender("oauth2", **CLIENT, scope="events")
    sender.answer_tokens("t1")
    sender.post(*(f"e{number}" for number in range(20)))
    assert sender.authorizations() == ["Bearer t1"] * 20
    assert sender.authorizations(TOKENS) == ["Basic c2hvcDpzMyUzQWNyZXQ="]
    (body,) = [body for url, _, body in sender.http.requests if url == TOKENS]
    assert parse_qs(body.decode()) == {"grant_type": ["client_credentials"], "scope": ["events"]}
    assert "t1" not in repr(sender.tokens.stored)


def test_client_credentials_may_be_in_the_body() -> None:
    sender = Sender("oauth2", **CLIENT | {"client_authentication": "body"}, audience="a")
    sender.answer_tokens("t1")
    sender.post()
    ((headers, body),) = [(headers, body) for url, headers, body in sender.http.requests if url == TOKENS]
    assert "authorization" not in headers
    sent = {
        "grant_type": ["client_credentials"],
        "audience": ["a"],
        "client_id": ["shop"],
        "client_secret": ["s3:cret"],
    }
    assert parse_qs(body.decode()) == sent


def test_environments_share_an_access_token() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2")
    sender.post("e1")
    sender.new_environment()
    sender.post("e2")
    assert sender.authorizations() == ["Bearer t1"] * 2


def test_an_access_token_is_renewed_before_its_end() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2")
    sender.post("e1")
    sender.clock.advance(3600 - 61)
    sender.post("e2")
    sender.clock.advance(2)
    sender.post("e3")
    assert sender.authorizations() == ["Bearer t1", "Bearer t1", "Bearer t2"]


def test_other_client_credentials_get_another_token() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2")
    sender.post("e1")
    sender.authenticate("oauth2", **CLIENT | {"client_secret": "other"})
    sender.clock.advance(2)
    sender.post("e2")
    assert sender.authorizations() == ["Bearer t1", "Bearer t2"]


def test_while_a_token_is_renewed_the_others_use_it() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2")
    sender.post("e1")
    sender.clock.advance(3600 - 30)
    stored = sender.tokens.stored[KEY]
    until_ms = sender.clock.now_ms() + round(WEBHOOK_TOKEN_REQUEST_S * 1000)
    sender.tokens.stored[KEY] = replace(stored, requested_until_ms=until_ms, version="claim of another environment")
    sender.new_environment()
    sender.post("e2")
    assert sender.authorizations() == ["Bearer t1"] * 2


@pytest.mark.kills(guard="webhook_tokens.one_environment")
def test_an_environment_waits_for_the_token_of_another() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1")
    sender.tokens.stored[KEY] = StoredToken(requested_until_ms=sender.clock.now_ms() + 1_000, version="claim")
    sender.post("e1")
    # The claim has ended: the other environment was killed.
    assert sender.authorizations() == ["Bearer t1"]
    assert sender.clock.now_ms() - NOW >= 1_000


def test_a_token_that_takes_too_long_lets_messages_wait() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.tokens.stored[KEY] = StoredToken(requested_until_ms=sender.clock.now_ms() + 19_000, version="claim")
    sender.post("e1")
    assert sender.http.requests == []
    assert [each.attempt for each in sender.waiting()] == [0]


def test_a_refused_token_is_renewed_once() -> None:
    """The tenant may revoke a token."""
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2", "t3")
    sender.post("e1")
    sender.clock.advance(61)
    refused = answer(401)
    sender.http.answers[url_of(KEY)] = [refused, refused, refused, answer(200)]
    sender.post("e2")
    assert sender.authorizations() == ["Bearer t1", "Bearer t1", "Bearer t2"]
    assert ("e2", "retried", 1, 401) in sender.results()


@pytest.mark.kills(guard="webhook_tokens.age_of_refused")
def test_a_refused_new_token_is_not_renewed() -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.answer_tokens("t1", "t2")
    sender.http.answers[url_of(KEY)] = [answer(401)]
    sender.post("e1")
    assert sender.authorizations(TOKENS) == ["Basic c2hvcDpzMyUzQWNyZXQ="]


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (answer(401, body='{"error": "invalid_client"}'), "the token server answered 401"),
        (answer(200, body="<html>"), "the token server answered without a token"),
        (answer(200, body="[]"), "the token server answered without a token"),
        (token(token_type="mac"), "the token server answered with a token that cannot be used"),
        (token("two words"), "the token server answered with a token that cannot be used"),
        (token("t\r\nx: y"), "the token server answered with a token that cannot be used"),
        (token(expires_in=-1), "the token server answered with a token that cannot be used"),
        (token(expires_in="soon"), "the token server answered without a token"),
        (token(expires_in=float("nan")), "the token server answered with a token that cannot be used"),
        (NoAnswer("no answer within 3 s"), "the token server: no answer within 3 s"),
        (UrlRefused(Text.URL_NOT_PUBLIC.filled()), "the token URL must name a public server"),
    ],
)
def test_without_a_token_the_attempt_fails(result: Answer | Exception, error: str) -> None:
    sender = Sender("oauth2", **CLIENT)
    sender.http.answers[TOKENS] = [result, token("t1")]
    sender.post()
    assert sender.http.ids() == []
    assert sender.errors() == [error]
    # The next attempt requests one at once.
    sender.http.answers[TOKENS] = [token("t1")]
    assert sender.retry() == []
    assert sender.authorizations() == ["Bearer t1"]


def test_without_its_token_the_previous_credentials_are_used() -> None:
    sender = Sender("oauth2", ("bearer", {"token": "old"}), **CLIENT)
    sender.http.answers[TOKENS] = [answer(401)]
    sender.post()
    assert sender.authorizations() == ["Bearer old"]
    assert sender.results() == [("e1", "delivered", 1, 200)]
