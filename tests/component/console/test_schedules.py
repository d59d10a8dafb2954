"""The console's page of schedules in a real Chromium, over the functions in memory behind the local gateway."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness.console import Console, open_console, open_page


@pytest.fixture
def console(url_of_one_send: str) -> Iterator[Console]:
    with open_console(url_of_one_send, "sender") as opened:
        yield opened


def test_a_schedule_is_shown_and_paused(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/schedules")
    row = page.get_by_role("row").filter(has_text="weekly")
    for text in ("FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0", "Europe/Zurich", "Active"):
        expect(row).to_contain_text(text)
    row.get_by_role("button", name="Times").click()
    expect(page.get_by_test_id("schedule").get_by_role("listitem")).to_have_count(10)
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Paused: by a person or program")
    expect(page.get_by_test_id("schedule")).to_contain_text("It has no next time.")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("Active")


@pytest.mark.nightly
def test_a_schedule_is_composed_and_its_times_are_changed(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/compose")
    page.get_by_label("Category").select_option("news")
    page.get_by_label("Title").fill("Goals")
    page.get_by_label("Text").fill("Those of the week")
    page.get_by_label("User ids").fill("42")
    page.get_by_label("Repeatedly").check()
    page.get_by_label("Name of the schedule").fill("weekly")
    page.get_by_label("Monday").check()
    page.get_by_label("First time at the earliest").fill("2023-01-02T09:30")
    page.get_by_label("Time zone", exact=True).select_option("Europe/Zurich")
    assert console.violations() == []
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Save the schedule").click()
    # The tenant has a schedule of this name.
    expect(page.get_by_label("Name of the schedule")).to_be_focused()
    page.get_by_label("Name of the schedule").fill("mondays")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Save the schedule").click()
    shown = page.get_by_test_id("schedule")
    expect(shown.get_by_role("listitem")).to_have_count(10)
    row = page.get_by_role("row").filter(has_text="mondays")
    expect(row).to_contain_text("FREQ=WEEKLY;BYDAY=MO")
    page.get_by_role("button", name="Change the times").click()
    page.get_by_label("How often").select_option("Each month")
    assert console.violations() == []
    page.get_by_role("button", name="Save the schedule").click()
    expect(row).to_contain_text("FREQ=MONTHLY")
    expect(shown.get_by_role("listitem")).to_have_count(10)
