"""The page of a user in a real Chromium over the functions in memory."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from functions.preferences_handler import handler as preferences_handler
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import Suppression
from tests.support.harness import console_pictures
from tests.support.harness.console import Console, open_console, open_page
from tests.support.harness.console_pictures import SHOWN_USER

pytestmark = pytest.mark.nightly


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "viewer") as opened:
        yield opened


def test_user_is_shown_with_devices_and_deciding_settings(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/users")
    page.get_by_label("User id").fill(str(SHOWN_USER))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    for fact in ("German (de)", "Europe/Berlin", "22:00", "Push, E-mail"):
        expect(page.get_by_role("definition").filter(has_text=fact)).to_be_visible()
    device = page.get_by_role("row").filter(has_text=f"{SHOWN_USER}1Apple")
    expect(device).to_have_text(re.compile("Disabled row device_state, version [0-9]+ · "))
    rows = {
        "match_reminder": ("Off · own setting of this category", "Off · own setting of this category"),
        "news": ("On · own setting of this category and channel", "Off · own setting of this channel"),
    }
    for category, cells in rows.items():
        deciding = [re.compile(rf"^{cell}\s?row user_settings, version 7 · ") for cell in cells]
        expect(_cells(page, category)).to_have_text([category, *deciding])
    mandatory = "On · mandatory category"
    expect(_cells(page, "security_alert")).to_have_text(["security_alert", mandatory, mandatory])


def _cells(page: Page, category: str) -> Locator:
    """Return the cells of a category's row in the table of settings."""
    name = page.get_by_role("cell", name=category, exact=True)
    return page.get_by_test_id("settings").get_by_role("row").filter(has=name).get_by_role("cell")


def test_changes_of_the_directory_appear_by_themselves(console: Console) -> None:
    page, directory = console.page, in_memory_directory()
    open_page(page, f"{console.url}/#/users/{SHOWN_USER}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    wish = Wish("news", "push", wanted=False)
    settings = directory.user_settings([SHOWN_USER])[SHOWN_USER]
    changes = PreferenceChanges(user_id=SHOWN_USER, club_id=1).after([wish], settings, 1_777_900_000_000)
    directory.preference_changes[SHOWN_USER] = changes.document
    expect(_cells(page, "news").nth(1)).to_contain_text("row preference_changes, version 1777900000000")
    expect(page.get_by_text("The monolith does not have the last change yet.")).to_be_visible()
    user = directory.users([SHOWN_USER])[SHOWN_USER]
    directory.suppress(
        Suppression(club_id=1, address=str(user.email), reason=Reason.COMPLAINED, at_ms=1, expires_ms=2**42)
    )
    expect(page.get_by_role("definition").filter(has_text="as spam")).to_contain_text("row suppressions")
    directory.remove(user)
    expect(page.get_by_text("No user has this id.")).to_be_visible()


def in_memory_directory() -> InMemoryDirectory:
    found: Any = preferences_handler.reading().directory
    assert isinstance(found, InMemoryDirectory)
    return found


def test_timeline_has_messages_and_changes(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/users/{SHOWN_USER}")
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
    open_page(page, f"{console.url}/#/users/999999")
    expect(page.get_by_text("No user has this id.")).to_be_visible()
    expect(page.get_by_text("Nothing is recorded")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_user_is_shown_without_the_metrics_database(console: Console) -> None:
    page = console.page
    page.route("**/notifications*", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    open_page(page, f"{console.url}/#/users/{SHOWN_USER}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Lovelace")
    expect(page.get_by_role("alert")).to_contain_text("away")
    expect(page.get_by_test_id("settings")).to_be_visible()
