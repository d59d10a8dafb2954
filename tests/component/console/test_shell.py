"""The console without a network, in German, after *Back* and before a sign-in, in a real Chromium over the functions in
memory.
"""

import pytest
from playwright.sync_api import expect

from masscomm.domain.signing_keys import KeySet
from masscomm.domain.unsubscribe_tokens import Subscription, sign
from tests.support.harness import rest_api
from tests.support.harness.console import PATIENCE_MS, open_console, open_page
from tests.support.harness.console_pictures import LIVE

pytestmark = pytest.mark.nightly
# Words of the English messages that no German page has.
ENGLISH = ("Loading", "Older", "Search", "Notification", "The user", "The provider", "Requested", "Delivered", "zoom")


def test_offline_page_shows_a_banner_and_continues(url: str) -> None:
    with open_console(url, "admin") as console:
        page = console.page
        open_page(page, f"{url}/#/sends")
        expect(page.get_by_role("table")).to_be_visible()
        page.context.set_offline(True)
        banner = page.get_by_role("status").filter(has_text="This computer is offline.")
        expect(banner).to_be_visible()
        assert console.violations() == []
        page.context.set_offline(False)
        expect(banner).to_have_count(0)
        page.get_by_role("link", name="Derby").click()
        expect(page.get_by_test_id("send-id")).to_have_text(LIVE)


def test_german_pages_have_no_english_words(url: str) -> None:
    with open_console(url, "admin", locale="de-DE", sign_out="Abmelden") as console:
        page = console.page
        assert page.evaluate("document.documentElement.lang") == "de"
        open_page(page, f"{url}/#/sends/{LIVE}")
        page.get_by_role("button", name="42", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("Abgemeldet von match_reminder per Push")
        expect(page.get_by_role("dialog")).to_contain_text("Einstellungen vom 3. Mai 2026")
        page.keyboard.press("Escape")
        for path in (
            f"sends/{LIVE}",
            "sends",
            "metrics",
            "categories",
            "users/42",
            "operations/suppressions",
            "operations/keys",
        ):
            open_page(page, f"{url}/#/{path}")
            expect(page.get_by_role("cell").first).to_be_visible()
            text = page.locator("body").inner_text()
            assert [word for word in ENGLISH if word in text] == [], path
        open_page(page, f"{url}/#/events/endpoints")
        page.get_by_label("URL").fill("https://10.0.0.1/hook")
        page.get_by_role("button", name="Endpunkt erstellen").click()
        expect(page.get_by_text("muss einen öffentlichen Server nennen")).to_be_visible()


def test_problems_and_warnings_of_the_api_are_in_german(url: str) -> None:
    with open_console(url, "sender", locale="de-DE", sign_out="Abmelden") as console:
        page = console.page
        open_page(page, f"{url}/#/compose")
        page.get_by_label("Kategorie").select_option("match_reminder")
        page.get_by_label("Titel").fill("Anstoß")
        page.get_by_label("Text").fill("Rot gegen Blau, 18:00")
        page.get_by_label("Nummern der Empfänger").fill("40-59 999999999")
        page.get_by_role("button", name="Prüfen").click()
        expect(page.get_by_text("1 von 21 Nutzern sind noch unbekannt")).to_be_visible()
        open_page(page, f"{url}/#/sends?club=2")
        expect(page.get_by_role("alert")).to_contain_text("Sie dürfen nicht jeden angefragten Mandanten sehen.")


def test_pages_without_a_session_log_no_error(url: str) -> None:
    """The description of the API, the issuer's page, and the pages of an unsubscribe link."""
    subscription = Subscription(user_id=42, club_id=1, category="match_reminder")
    in_2100_s = 4_102_444_800
    token = sign(KeySet.read(rest_api.SIGNING_KEYS), subscription, in_2100_s)
    with open_console(url, None) as console:
        page = console.page
        page.locator("main").get_by_role("button").click()
        # The console's own page has the same heading.
        page.wait_for_url("**/-/sign-in/authorize?**")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.goto(f"{url}/-/api")
        expect(page.get_by_text("/v1/sends", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
        page.goto(f"{url}/v1/unsubscribe/{token}")
        page.get_by_role("button").click()
        # User 42 reads German.
        expect(page.get_by_role("heading", name="Abbestellt")).to_be_visible()
        expect(page.get_by_text("Spielerinnerungen")).to_be_visible()
        page.goto(f"{url}/v1/unsubscribe/unsigned")
        expect(page.get_by_role("heading")).to_be_visible()


def test_back_shows_the_id_of_the_rows(url: str) -> None:
    with open_console(url, "admin") as console:
        page = console.page
        open_page(page, f"{url}/#/users/42")
        expect(page.get_by_role("cell").first).to_be_visible()
        page.get_by_label("User id").fill("9007199254740993")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("cell")).to_have_count(0)
        page.go_back()
        expect(page.get_by_role("cell").first).to_be_visible()
        expect(page.get_by_label("User id")).to_have_value("42")
        page.go_forward()
        expect(page.get_by_label("User id")).to_have_value("9007199254740993")
