"""The console's sign-in in a real Chromium, with both REST functions in memory."""

import json
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from local.emulators import sign_in
from tests.support.harness.console import is_send, open_console, open_page

SEND = {"type": "news", "club_id": 1, "to_users": [42], "data": {"headline": "Hello"}}


@pytest.fixture
def url(url_of_one_send: str) -> str:
    return url_of_one_send


@pytest.mark.guarantee("people.tokens_stay_in_the_tab")
def test_tokens_stay_in_the_tab_and_survive_a_reload(url: str) -> None:
    with open_console(url, "sender") as console:
        assert console.page.url == f"{url}/#/"
        stored = json.loads(console.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])"))
        local, session = (json.dumps(each) for each in stored)
        assert "access_token" in session
        assert "eyJ" not in local
        assert console.page.context.cookies() == []
        console.page.reload()
        expect(console.page.get_by_role("button", name="Sign out")).to_be_visible()
        other = console.page.context.new_page()
        other.goto(url)
        expect(other.locator("main").get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.guarantee("people.page_hides_and_api_refuses")
@pytest.mark.nightly
def test_a_viewer_reads_and_the_api_refuses_a_send(url: str) -> None:
    with open_console(url, "viewer") as console:
        expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
        links = console.page.get_by_role("navigation").get_by_role("link").all_inner_texts()
        assert "Sends" in links
        assert not {"Compose", "Operations"} & {*links}
        open_page(console.page, f"{url}/#/compose")
        expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
        assert console.page.get_by_role("button", name="Review").count() == 0
        for path in ("operations", "operations/keys", "operations/letters"):
            open_page(console.page, f"{url}/#/{path}")
            expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
            console.page.wait_for_url(f"{url}/#/")
        assert not [each for each in console.requests if "/v1/keys" in each.url or "/v1/dead-letters" in each.url]
        assert console.call("GET", "/v1/sends?club_id=1") == 200
        assert console.call("POST", "/v1/sends", SEND) == 403


def test_a_sender_sends_for_the_own_club_only(url: str) -> None:
    with open_console(url, "sender") as console:
        assert console.call("POST", "/v1/sends", SEND) == 202
        assert console.call("POST", "/v1/sends", SEND | {"club_id": 2}) == 403
        assert console.call("POST", "/v1/sends", SEND | {"priority": "critical"}) == 403
        assert console.call("GET", "/v1/audit?club_id=1") == 403
    with open_console(url, "admin") as console:
        assert console.call("POST", "/v1/sends", SEND | {"club_id": 2}) == 202
        assert console.call("GET", "/v1/audit?club_id=1") == 200


def test_the_send_of_another_tenant_is_not_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "sends/3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"
    with open_console(url, "viewer") as console:
        assert console.call("GET", f"/v1/{path}") == 200
    foreign = replace(sign_in.USERS["sender"], clubs=(2,))
    monkeypatch.setattr(sign_in, "USERS", {"sender": foreign})
    with open_console(url, "sender") as console:
        assert console.call("GET", f"/v1/{path}") == 404
        assert console.call("POST", f"/v1/{path}/cancel", {}) == 404
        open_page(console.page, f"{url}/#/{path}")
        expect(console.page.get_by_text("There is no send with this id.")).to_be_visible()


@pytest.mark.nightly
def test_an_expired_sign_in_keeps_the_composed_text(url: str) -> None:
    with open_console(url, "sender") as console:
        page = console.page
        page.route("**/v1/sends", lambda route: route.fulfill(status=401, json={"detail": "expired"}))
        console.compose("42 7", title="Kept title", body="Kept text")
        with page.expect_response(lambda response: response.status == 401):
            page.get_by_role("button", name="Send to").click()
        page.unroute("**/v1/sends")
        page.get_by_role("button", name="Sign in again").click()
        console.sign_in("sender")
        assert page.get_by_label("Title").input_value() == "Kept title"
        assert page.get_by_label("Text").input_value() == "Kept text"
        assert page.get_by_label("User ids").input_value() == "42 7"
        expect(page.get_by_role("button", name="Sign in again")).to_have_count(0)
        page.get_by_role("button", name="Review").click()
        with page.expect_response(lambda response: is_send(response.request)) as sent:
            page.get_by_role("button", name="Send to").click()
        assert sent.value.status == 202


@pytest.mark.nightly
def test_an_expired_token_is_noticed_without_a_request(url: str) -> None:
    with open_console(url, "viewer") as console:
        console.page.evaluate("""() => {
            const [name, text] = Object.entries(sessionStorage).find(([name]) => name.includes("user:"));
            sessionStorage.setItem(name, JSON.stringify({ ...JSON.parse(text), expires_at: 1 }));
        }""")
        console.page.reload()
        expect(console.page.get_by_role("button", name="Sign in again")).to_be_visible()
        expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()


@pytest.mark.nightly
def test_a_token_is_renewed_before_its_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stays as it is. The library renews a minute before the end."""
    monkeypatch.setattr(sign_in, "TOKEN_S", 65)
    with open_console(url, "sender") as console:
        page = console.page
        open_page(page, f"{url}/#/compose")
        page.get_by_label("Title").fill("Kept title")
        stored = "Object.entries(sessionStorage).find(([name]) => name.includes('user:'))[1]"
        first = json.loads(page.evaluate(stored))["access_token"]
        monkeypatch.setattr(sign_in, "TOKEN_S", 3_600)
        with page.expect_response("**/token", timeout=30_000) as renewed:
            pass
        assert renewed.value.ok
        page.wait_for_function(f"(first) => JSON.parse({stored}).access_token !== first", arg=first)
        assert page.get_by_label("Title").input_value() == "Kept title"
        assert console.call("GET", "/v1/sends?club_id=1") == 200
        expect(page.get_by_role("button", name="Sign in again")).to_have_count(0)


@pytest.mark.nightly
def test_a_person_of_two_clubs_begins_with_one_of_them(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "USERS", {"sender": replace(sign_in.USERS["sender"], clubs=(7, 8))})
    with open_console(url, "sender") as console:
        page = console.page
        open_page(page, f"{url}/#/sends")
        expect(page.get_by_text("There is no such send yet.")).to_be_visible()
        open_page(page, f"{url}/#/metrics")
        expect(page.get_by_label("Tenant (empty: all)").locator("option")).to_have_text(["Any", "7", "8"])
        assert not [each for each in console.requests if "club_id=1" in each.url]


@pytest.mark.nightly
def test_another_person_does_not_see_the_composed_text(url: str) -> None:
    with open_console(url, "sender") as console:
        page = console.page
        page.route("**/v1/sends", lambda route: route.fulfill(status=401, json={"detail": "expired"}))
        console.compose("42", title="Secret", body="Text")
        page.get_by_role("button", name="Send to").click()
        page.unroute("**/v1/sends")
        page.get_by_role("button", name="Sign in again").click()
        console.sign_in("admin")
        assert page.get_by_label("Title").input_value() == ""


def test_a_sign_out_leaves_nothing_in_the_tab(url: str) -> None:
    with open_console(url, "sender") as console:
        open_page(console.page, f"{url}/#/compose")
        console.page.get_by_label("Title").fill("Secret")
        console.page.get_by_role("button", name="Sign out").click()
        expect(console.page.locator("main").get_by_role("button", name="Sign in")).to_be_visible()
        console.page.reload()
        expect(console.page.locator("main").get_by_role("button", name="Sign in")).to_be_visible()
        assert console.page.evaluate("JSON.stringify({...sessionStorage})") == "{}"


@pytest.mark.parametrize(
    "answer",
    ["?code=made-up&state=made-up", pytest.param("?error=access_denied&state=made-up", marks=pytest.mark.nightly)],
)
def test_an_answer_without_a_request_is_refused(url: str, answer: str) -> None:
    """A page of another site could otherwise sign its reader in as another person."""
    with open_console(url, None) as console:
        console.page.goto(f"{url}/{answer}")
        expect(console.page.get_by_role("alert")).to_contain_text("sign-in failed")
        assert "made-up" not in console.page.url
        assert not [each for each in console.requests if each.url.endswith("/token")]


@pytest.mark.nightly
def test_the_sign_in_pages_have_no_serious_violations(url: str) -> None:
    with open_console(url, None) as console:
        assert console.violations() == []
        console.page.locator("main").get_by_role("button", name="Sign in").click()
        expect(console.page.get_by_role("button", name="Viewer")).to_be_visible()
