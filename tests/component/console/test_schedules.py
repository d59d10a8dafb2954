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
