"""The console's page of saved audiences in a real Chromium, over the functions in memory behind the local gateway."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness.console import Console, open_console, open_page


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "admin") as opened:
        yield opened


def test_an_audience_is_counted_saved_changed_and_deleted(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/audiences")
    page.get_by_role("button", name="New audience").click()
    page.get_by_label("Saved audience").fill("everybody")
    page.get_by_label("All", exact=True).check()
    page.get_by_role("button", name="Count the users").click()
    expect(page.get_by_test_id("count")).to_contain_text("users match")
    assert console.violations() == []
    page.get_by_role("button", name="Save the audience").click()
    expect(page.get_by_role("status")).to_contain_text("everybody is saved.")
    row = page.get_by_role("row").filter(has_text="everybody")
    row.get_by_role("button", name="Change").click()
    page.get_by_label("Those that match conditions").check()
    page.get_by_label("Value", exact=True).fill("de")
    page.get_by_role("button", name="Save the audience").click()
    expect(page.get_by_role("status")).to_contain_text("everybody is saved.")
    row.get_by_role("button", name="Change").click()
    expect(page.get_by_label("Audience", exact=True)).to_have_value('{"where":{"field":"locale","is":"de"}}')
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("alert").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


@pytest.mark.nightly
def test_addition_of_a_known_name_is_refused(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/audiences")
    for text in ("taken is saved.", ""):
        page.get_by_role("button", name="New audience").click()
        page.get_by_label("Saved audience").fill("taken")
        page.get_by_label("All", exact=True).check()
        if not text:
            page.get_by_label("Written as JSON").check()
            page.get_by_label("Audience", exact=True).fill('{"where": {"field": "locale", "is": "de"}}')
        page.get_by_role("button", name="Save the audience").click()
        expect(page.get_by_role("status" if text else "alert")).to_contain_text(text)
    expect(page.get_by_label("Saved audience")).to_have_value("taken")
