"""The unsubscribe link of an e-mail: its page changes nothing, its POST unsubscribes from one category by e-mail."""

import base64
import dataclasses
import email
import email.policy
import json
import re
from hashlib import sha256
from typing import Any

import pytest

from functions.preferences_handler import handler as module
from functions.preferences_handler.unsubscribe import REQUESTS_A_MINUTE, Unsubscribe
from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.unsubscribe_links import UnsubscribeLinks
from masscomm.directory.preference_changes import InMemoryPreferenceChanges
from masscomm.domain.preferences import decide_by_user_settings
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.statuses import Reason
from masscomm.domain.unsubscribe_tokens import Subscription, sign
from masscomm.domain.users import User
from masscomm.errors import Retry
from masscomm.http.rate_limits import RateLimiter
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW
from tests.support.harness.delivery import Delivery, by_email
from tests.support.harness.preferences_api import ADA, USER, PreferencesApi
from tests.support.inputs.api_gateway_events import lambda_context

ONE, TWO = "the first key, of thirty-two bytes", "the second key, of thirty-two bytes"
KEYS = {"current": "2", "1": ONE, "2": TWO}
FORM = {"Content-Type": ["application/x-www-form-urlencoded"]}
ONE_CLICK = "List-Unsubscribe=One-Click"
SUBSCRIPTION = Subscription(USER, 7, "newsletter")
LATER_S = NOW // 1000 + 60
MULTIPART = '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n'


class Links(PreferencesApi):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        links = UnsubscribeLinks(
            url="https://example.org/v1/unsubscribe",
            keys=SigningKeys(read=lambda: json.dumps(KEYS), clock=self.clock),
            clock=self.clock,
        )
        self.link = links.ways_out(SUBSCRIPTION).link or ""
        case = Unsubscribe(
            links=links,
            preferences=self.use_case,
            limiter=RateLimiter(usage=self.usage, clock=self.clock),
            sender=lambda _: "Reds & Blues",
        )
        monkeypatch.setattr(module, "unsubscribe", lambda: case)

    def request(self, method: str, token: str | None = None, **values: Any) -> tuple[int, str, dict[str, str]]:
        """Return (status, page, headers) of a request without an API key."""
        token = self.link.rpartition("/")[2] if token is None else token
        event = {"requestContext": {}, "multiValueHeaders": FORM} | values
        answer = self.respond(method, f"/v1/unsubscribe/{token}", **event)
        headers = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return answer["statusCode"], answer["body"], headers

    def post(self, token: str | None = None, body: str = ONE_CLICK, **values: Any) -> tuple[int, str]:
        return self.request("POST", token, body=body, **values)[:2]

    def mail(self, *subjects: str | None) -> int:
        """Receive e-mails with these subjects in one event of a receipt rule; return how many unsubscribed."""
        records = [
            {"eventSource": "aws:ses", "ses": {"mail": {"commonHeaders": {"subject": subject} if subject else {}}}}
            for subject in subjects
        ]
        answer = module.handler({"Records": records}, lambda_context())
        found: int = answer["unsubscribed"]
        return found

    def reason(self, type: str, channel: str = "email") -> Reason | None:
        settings = self.directory.user_settings([USER]).get(USER)
        return decide_by_user_settings(settings, club_id=7, type=type, channel=channel).reason


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Links:
    return Links(monkeypatch)


def _token(
    subscription: Subscription = SUBSCRIPTION, expires_at_s: int = LATER_S, *, key: str = "2", secret: str = TWO
) -> str:
    return sign(KeySet.read(json.dumps({"current": key, key: secret})), subscription, expires_at_s)


def test_page_of_a_link_changes_nothing(links: Links) -> None:
    for _ in range(3):
        status, page, headers = links.request("GET")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert "Newsletter" in page
        assert '<form method="post">' in page
    assert links.records() == []
    assert links.reason("newsletter") is None


def test_page_is_in_the_language_of_the_recipient(links: Links) -> None:
    """It names the sender and the title of the category; a page without a known user has the browser's language."""
    links.directory.put(ADA._replace(locale="de-AT"))
    _, page, _ = links.request("GET")
    assert '<html lang="de">' in page
    assert "keine E-Mails der Kategorie <b>Newsletter</b>" in page
    assert "E-Mails von Reds &amp; Blues" in page
    assert "keine E-Mails der Kategorie <b>Newsletter</b> mehr" in links.post()[1]
    german = {**FORM, "Accept-Language": ["de-DE,de;q=0.9"]}
    assert "Dieser Link ist nicht gültig" in links.request("GET", "unsigned", multiValueHeaders=german)[1]
    invalid = links.request("GET", "unsigned", multiValueHeaders={**FORM, "Accept-Language": ["fr"]})[1]
    assert "This link is not valid" in invalid
    assert "Reds" not in invalid


def test_page_describes_the_category(links: Links, stored_categories: InMemoryCategories) -> None:
    texts = {"en": "News & offers", "de": "Neues <vom Verein>"}
    put_version(stored_categories, "newsletter", {"channels": ["email"], "descriptions": texts})
    known_categories().read()
    assert "<p>News &amp; offers</p>" in links.request("GET")[1]
    links.directory.put(ADA._replace(locale="de-AT"))
    assert "<p>Neues &lt;vom Verein&gt;</p>" in links.post()[1]


def test_page_permits_no_script(links: Links) -> None:
    _, page, headers = links.request("GET")
    assert "script" not in page
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    (style,) = re.findall(r"<style>(.*)</style>", page)
    assert f"'sha256-{base64.b64encode(sha256(style.encode()).digest()).decode()}'" in policy
    assert (headers["Cache-Control"], headers["Referrer-Policy"]) == ("no-store", "no-referrer")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(ONE_CLICK, FORM["Content-Type"][0]), (MULTIPART, "multipart/form-data; boundary=x")],
)
def test_one_click_unsubscribes_at_once(links: Links, body: str, content_type: str) -> None:
    status, page = links.post(body=body, multiValueHeaders={"content-type": [content_type]})
    assert (status, "no more e-mails" in page) == (200, True)
    assert links.reason("newsletter") is Reason.OPTED_OUT
    assert (links.reason("news"), links.reason("newsletter", "push")) == (None, None), "others still arrive"
    (record,) = links.records()
    (change,) = record.changes
    assert (record.user_id, record.club_id, record.source, record.principal) == (USER, 7, "unsubscribe", None)
    assert (change.category, change.channel, change.wanted) == ("newsletter", "email", False)


def test_second_click_changes_nothing_more(links: Links) -> None:
    links.post()
    assert links.post()[0] == 200
    assert "no more e-mails" in links.request("GET")[1]
    assert len(links.records()) == 1


def test_rule_for_all_emails_is_not_an_unsubscription(links: Links) -> None:
    links.put(channels={"email": False})
    links.post()
    links.clock.advance(1)
    links.put(channels={"email": True})
    assert links.reason("newsletter") is Reason.OPTED_OUT


@pytest.mark.kills(guard="unsubscribe.one_click")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("other=1", FORM["Content-Type"][0]),
        ("other=", FORM["Content-Type"][0]),
        (f"{ONE_CLICK}&other=1", FORM["Content-Type"][0]),
        (MULTIPART.replace("List-Unsubscribe", "other"), "multipart/form-data; boundary=x"),
        ("x" * 20_000, "text/plain"),
    ],
)
def test_post_with_another_key_changes_nothing(links: Links, body: str, content_type: str) -> None:
    assert links.post(body=body, multiValueHeaders={"content-type": [content_type]})[0] == 400
    assert links.records() == []


@pytest.mark.parametrize(
    "body",
    ["", " ", f"{ONE_CLICK}\r\n", f"\r\n{ONE_CLICK}", "list-unsubscribe=one-click", "One-Click", "List-Unsubscribe="],
)
def test_post_without_another_key_unsubscribes(links: Links, body: str) -> None:
    assert links.post(body=body)[0] == 200
    assert links.reason("newsletter") is Reason.OPTED_OUT


def _altered(token: str, subscription: Subscription) -> str:
    """Return a token with another payload under the same signature."""
    return f"{_token(subscription).partition('.')[0]}.{token.partition('.')[2]}"


@pytest.mark.kills(guard="unsubscribe.signature")
@pytest.mark.parametrize(
    "token",
    [
        _token(secret="another key of thirty-two bytes!!"),
        _token(key="3"),
        _altered(_token(), SUBSCRIPTION._replace(user_id=43)),
        _altered(_token(), SUBSCRIPTION._replace(club_id=8)),
        _altered(_token(), SUBSCRIPTION._replace(category="news")),
        _token()[:-1] + ("A" if _token()[-1] != "A" else "B"),
        "x",
        "e30.AAAA",
        f"{'A' * 3_000}.{'A' * 43}",
    ],
)
def test_link_that_was_not_signed_is_invalid(links: Links, token: str) -> None:
    links.directory.put(User(user_id=43, club_id=7), ADA)
    invalid = links.request("GET", "unknown")
    assert invalid[0] == 404
    assert links.request("GET", token) == invalid
    assert links.post(token) == invalid[:2]
    assert links.records() == []


@pytest.mark.kills(guard="unsubscribe.expiry")
def test_expired_link_is_invalid(links: Links) -> None:
    token = _token()
    links.clock.advance(59)
    assert links.request("GET", token)[0] == 200
    links.clock.advance(1)
    assert links.post(token) == links.request("GET", "unknown")[:2]
    assert links.records() == []


@pytest.mark.kills(guard="unsubscribe.tenant")
def test_link_for_another_tenant_is_invalid(links: Links) -> None:
    """The user moved to another club after the e-mail."""
    links.directory.put(User(user_id=USER, club_id=8))
    assert links.request("GET")[0] == links.post()[0] == 404
    assert links.request("GET", _token(SUBSCRIPTION._replace(user_id=4_711)))[0] == 404
    assert links.records() == []


@pytest.mark.kills(guard="unsubscribe.category")
def test_only_the_category_of_the_link_is_changed(links: Links) -> None:
    links.post(_token(SUBSCRIPTION._replace(category="match_reminder")))
    assert links.reason("match_reminder") is Reason.OPTED_OUT
    assert links.reason("newsletter") is None


def test_link_of_a_mandatory_category_is_invalid(links: Links) -> None:
    assert links.post(_token(SUBSCRIPTION._replace(category="security_alert")))[0] == 404
    assert links.records() == []


def test_earlier_key_verifies_until_it_is_removed(links: Links) -> None:
    assert links.request("GET", _token(key="1", secret=ONE))[0] == 200
    links.clock.advance(400)
    without_first = {"current": "2", "2": TWO}
    later = NOW // 1000 + 10_000
    case = module.unsubscribe()
    assert case.links is not None
    case.links.keys.read = lambda: json.dumps(without_first)
    assert links.request("GET", _token(expires_at_s=later, key="1", secret=ONE))[0] == 404
    assert links.request("GET", _token(expires_at_s=later))[0] == 200


@pytest.mark.kills(guard="unsubscribe.rate")
def test_clicks_on_a_link_are_limited(links: Links) -> None:
    for _ in range(REQUESTS_A_MINUTE):
        assert links.post()[0] == 200
    status, page, headers = links.request("POST", body=ONE_CLICK)
    assert (status, "Too many" in page, headers["Content-Type"]) == (429, True, "text/html; charset=utf-8")
    assert 1 <= int(headers["Retry-After"]) <= 60
    assert links.post(_token())[0] == 200, "another link"
    links.clock.advance(60)
    assert links.post()[0] == 200


@pytest.mark.kills(guard="unsubscribe.clicks_apart")
def test_requests_of_scanners_do_not_count_as_clicks(links: Links) -> None:
    for _ in range(REQUESTS_A_MINUTE):
        assert links.request("GET")[0] == 200
    assert links.post()[0] == 200
    assert links.reason("newsletter") is Reason.OPTED_OUT


@pytest.mark.kills(guard="unsubscribe.scanned_page")
def test_a_scanned_page_has_its_button_without_look_ups(links: Links) -> None:
    for _ in range(REQUESTS_A_MINUTE):
        links.request("GET")
    links.directory.failing = Retry("looked up")
    status, page, _ = links.request("GET")
    assert (status, '<button type="submit">' in page) == (200, True)
    assert links.request("GET", "unknown")[0] == 404


def test_unsubscribing_needs_no_store_of_counts(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_: object, **__: object) -> None:
        raise Retry("no table")

    monkeypatch.setattr(links.usage, "take", down)
    assert links.post()[0] == 200


def test_outage_is_shown_without_detail(links: Links) -> None:
    links.directory.failing = Retry("secret host name")
    status, page, headers = links.request("POST", body=ONE_CLICK)
    assert (status, headers["Retry-After"]) == (503, "60")
    assert "secret" not in page


def test_name_of_a_category_is_escaped(links: Links) -> None:
    page = links.request("GET", _token(SUBSCRIPTION._replace(category="<b onclick=x>")))[1]
    assert "&lt;b onclick=x&gt;" in page


def test_link_of_a_delivered_email_ends_its_category(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Delivery()
    case = module.unsubscribe()
    preferences = dataclasses.replace(
        links.use_case,
        directory=chain.directory,
        changes=InMemoryPreferenceChanges(chain.directory.preference_changes),
    )
    reached = dataclasses.replace(case, links=chain.links, preferences=preferences)
    monkeypatch.setattr(module, "unsubscribe", lambda: reached)
    chain.deliver(by_email([1]))
    (sent,) = chain.email.sent
    header = email.message_from_bytes(sent.message, policy=email.policy.default)["List-Unsubscribe"]
    token = header.partition(">")[0].rpartition("/")[2]
    assert links.post(token)[0] == 200
    chain.forget()
    chain.deliver(by_email([1], record_id="second"), by_email([2], record_id="third"))
    chain.deliver(by_email([1], record_id="fourth", type="match_reminder"))
    assert [each.recipient for each in chain.email.sent] == [
        "user1@example.com",
        "user2@example.com",
        "user1@example.com",
    ]
    suppressed = [result.reason for outcome in chain.outcomes() for result in outcome.results if result.reason]
    assert suppressed == ["opted_out"]


def test_installation_without_links_has_no_valid_link(links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Unsubscribe(
        links=None, preferences=links.use_case, limiter=RateLimiter(usage=links.usage, clock=links.clock)
    )
    monkeypatch.setattr(module, "unsubscribe", lambda: case)
    assert links.post()[0] == 404


# --- the mailbox ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("unsubscribe.mailto_is_read")
def test_an_email_to_the_mailbox_unsubscribes(links: Links) -> None:
    token = links.link.rpartition("/")[2]
    assert links.mail(f"unsubscribe {token}") == 1
    assert links.reason("newsletter") is Reason.OPTED_OUT
    assert links.reason("announcement") is None
    (record,) = links.records()
    assert (record.user_id, record.club_id, record.source) == (USER, 7, "unsubscribe")
    # The event is repeated.
    assert links.mail(f"unsubscribe {token}") == 1
    assert len(links.records()) == 1


def test_emails_without_a_valid_token_do_not_stop_others(links: Links) -> None:
    token = links.link.rpartition("/")[2]
    forged = _token(secret="another key, of thirty-two bytes!!")
    mandatory = _token(Subscription(USER, 7, "security_alert"))
    subjects = (None, "Out of office", "unsubscribe", f"unsubscribe {forged}", f"unsubscribe {mandatory}")
    assert links.mail(*subjects) == 0
    assert links.records() == []
    assert links.mail(*subjects, f"Re: unsubscribe {token}") == 1


def test_an_email_is_repeated_while_a_dependency_is_down(links: Links) -> None:
    """Lambda invokes the function again, and then puts the event into the queue of missed ones."""
    token = links.link.rpartition("/")[2]
    links.directory.failing = Retry("down")
    with pytest.raises(Retry):
        links.mail(f"unsubscribe {token}")
