"""The console without a network, and in German, in a real Chromium over the functions in memory."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from devstack.services.lambda_host import CONSOLE
from tests.support.harness import console_pictures, rest_api
from tests.support.harness.console import open_console
from tests.support.harness.console_pictures import LIVE

pytestmark = pytest.mark.nightly
# Words of the English messages that no German page has.
ENGLISH = ("Loading", "Older", "Search", "Notification", "The user", "The provider", "Requested", "Delivered", "zoom")


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    console_pictures.build(monkeypatch)
    with rest_api.serving(CONSOLE) as url:
        yield url


def test_offline_page_shows_a_banner_and_continues(url: str) -> None:
    with open_console(url, "admin") as console:
        page = console.page
        page.goto(f"{url}/#/sends")
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
        page.goto(f"{url}/#/sends/{LIVE}")
        page.get_by_role("button", name="42", exact=True).click()
        expect(page.get_by_role("dialog")).to_contain_text("Abgemeldet von match_reminder per Push")
        expect(page.get_by_role("dialog")).to_contain_text("Einstellungen vom 3. Mai 2026")
        page.keyboard.press("Escape")
        for path in (f"sends/{LIVE}", "sends", "metrics", "users/42", "operations/suppressions", "operations/keys"):
            page.goto(f"{url}/#/{path}")
            expect(page.get_by_role("cell").first).to_be_visible()
            text = page.locator("body").inner_text()
            assert [word for word in ENGLISH if word in text] == [], path
        page.goto(f"{url}/#/operations/webhooks")
        page.get_by_label("URL").fill("https://10.0.0.1/hook")
        page.get_by_role("button", name="Endpunkt erstellen").click()
        expect(page.get_by_text("muss einen öffentlichen Server nennen")).to_be_visible()
        assert console.errors == []


def test_problems_and_warnings_of_the_api_are_in_german(url: str) -> None:
    with open_console(url, "sender", locale="de-DE", sign_out="Abmelden") as console:
        page = console.page
        page.goto(f"{url}/#/")
        page.get_by_label("Kategorie").select_option("match_reminder")
        page.get_by_label("Titel").fill("Anstoß")
        page.get_by_label("Text").fill("Rot gegen Blau, 18:00")
        page.get_by_label("Nummern der Empfänger").fill("40-59 999999999")
        page.get_by_role("button", name="Prüfen").click()
        expect(page.get_by_text("1 von 21 Nutzern sind noch unbekannt")).to_be_visible()
        page.goto(f"{url}/#/sends?club=2")
        expect(page.get_by_role("alert")).to_contain_text("Sie dürfen nicht jeden angefragten Verein sehen.")
