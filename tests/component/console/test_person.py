"""The page of a user in a real Chromium over the functions in memory."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness import console_pictures
from tests.support.harness.console import Console, open_console
from tests.support.harness.console_pictures import SHOWN_USER

pytestmark = pytest.mark.nightly


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "viewer") as opened:
        yield opened


def test_user_is_shown_with_devices_and_deciding_settings(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/#/users")
    page.get_by_label("User id").fill(str(SHOWN_USER))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    for fact in ("German (de)", "Europe/Berlin", "22:00", "Push, E-mail"):
        expect(page.get_by_role("definition").filter(has_text=fact)).to_be_visible()
    device = page.get_by_role("row").filter(has_text="Disabled")
    expect(device).to_contain_text(f"{SHOWN_USER}1Apple")
    settings = page.get_by_test_id("settings")
    rows = {
        "match_reminder": ("Off · own setting of this category", "Off · own setting of this category"),
        "news": ("On · own setting of this category and channel", "Off · own setting of this channel"),
        "security_alert": ("On · mandatory category", "On · mandatory category"),
    }
    for category, cells in rows.items():
        name = page.get_by_role("cell", name=category, exact=True)
        shown = settings.get_by_role("row").filter(has=name).get_by_role("cell")
        expect(shown).to_have_text([category, *cells])


def test_timeline_has_messages_and_changes(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/#/users/{SHOWN_USER}")
    timeline = page.get_by_test_id("timeline")
    expect(timeline.get_by_role("row").last).to_contain_text("The settings were changed")
    expect(timeline).to_contain_text(f"Device {SHOWN_USER}0 was changed (Android)")
    timeline.get_by_role("button", name="match_reminder").click()
    steps = page.get_by_role("dialog").get_by_role("listitem")
    expect(steps.last).to_contain_text("Delivered")
    page.get_by_role("dialog").get_by_role("link", name="Open the send").click()
    expect(page.get_by_test_id("send-id")).to_have_text(console_pictures.LIVE)


def test_user_of_no_directory_has_a_notice(console: Console) -> None:
    page = console.page
    page.goto(f"{console.url}/#/users/999999")
    expect(page.get_by_text("No user has this id.")).to_be_visible()
    expect(page.get_by_text("Nothing is recorded")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_user_is_shown_without_the_metrics_database(console: Console) -> None:
    page = console.page
    page.route("**/notifications*", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    page.goto(f"{console.url}/#/users/{SHOWN_USER}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    expect(page.get_by_role("alert")).to_contain_text("away")
    expect(page.get_by_test_id("settings")).to_be_visible()
