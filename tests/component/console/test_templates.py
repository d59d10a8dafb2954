"""The page of the templates in a real Chromium over the functions in memory."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness.console import Console, open_console, open_page

pytestmark = pytest.mark.nightly


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "viewer") as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("match_reminder", "Push: no template in English (en)"),
        ("matchday", "E-mail, de: does not read kick_off"),
        ("season_end", "Push, en: title: line 1"),
        ("welcome", "E-mail: not translated: German (de)"),
    ],
)
def test_problem_is_listed_and_shown_with_the_template(console: Console, name: str, problem: str) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/templates")
    row = page.get_by_test_id("templates").get_by_role("row").filter(has_text=name)
    expect(row).to_contain_text(problem)
    row.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_text(problem)).to_be_visible()


def test_preview_follows_values_language_and_user(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/templates/matchday")
    page.get_by_label("opponent", exact=True).fill("Riverside")
    push = page.get_by_test_id("preview-push")
    expect(push).to_contain_text("Anpfiff um [kick_off]")
    page.get_by_role("tab", name="en and others").click()
    expect(push).to_contain_text("Kick-off at [kick_off]")
    page.get_by_label("kick_off", exact=True).fill("19:30")
    page.get_by_label("Preview for the user").fill("43")
    expect(page.get_by_test_id("preview-email")).to_contain_text("Hi Ada, we play Riverside at 19:30.")


def test_unknown_template_leads_back_to_the_list(console: Console) -> None:
    page = console.page
    open_page(page, f"{console.url}/#/templates/unknown")
    expect(page.get_by_text("There is no template of this name.")).to_be_visible()
    page.get_by_role("link", name="All templates").click()
    expect(page.get_by_role("link", name="matchday")).to_be_visible()
