"""The time of interactions until the next paint, and pages that move while they load, as Chromium measures them."""

import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.support.harness import console_pictures
from tests.support.harness.console import OBSERVE, PAINT, Console, open_console, open_page

pytestmark = pytest.mark.nightly
# The largest sum of layout shifts of a page. A shift of 0.01 is a tenth of the window that moves by a tenth of it.
LARGEST_SHIFT = 0.01
PAGES = {
    "overview": "#/",
    "compose": "#/compose",
    "sends": "#/sends",
    "a send": f"#/sends/{console_pictures.LIVE}",
    "metrics": "#/metrics",
    "user": "#/users/42",
    "templates": "#/templates",
    "categories": "#/categories",
    "operations": "#/operations/letters",
}


@pytest.fixture
def console(url: str) -> Iterator[Console]:
    with open_console(url, "admin") as opened:
        opened.page.add_init_script(OBSERVE)
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_not_move_while_it_loads(console: Console, name: str) -> None:
    page = console.page
    page.goto("about:blank")
    open_page(page, f"{console.url}/{PAGES[name]}")
    page.wait_for_load_state("networkidle") if name in {"overview", "compose"} else expect(
        page.get_by_role("cell").first
    ).to_be_visible()
    shifts = console.measured()["shifts"]
    assert sum(value for value, _ in shifts) <= LARGEST_SHIFT, shifts


def test_first_useful_paint_is_measured(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures are printed; docs/internals/contributing.md has the aim."""
    console.page.add_init_script(PAINT)
    times = {name: console.first_useful_paint_ms(path) for name, path in PAGES.items()}
    with capsys.disabled():
        sys.stdout.write("\n" + "".join(f"first useful paint: {ms:.0f} ms ({name})\n" for name, ms in times.items()))


def test_interactions_are_measured(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures are printed; docs/internals/contributing.md has the aim."""
    page = console.page
    open_page(page, f"{console.url}/#/compose")
    page.reload()
    page.get_by_label("Title").press_sequentially("Kick-off in one hour")
    page.get_by_label("User ids").press_sequentially("40-59 42")
    page.get_by_label("An audience of the tenant").click()
    page.get_by_role("button", name="Add a condition").click()
    for link in ("Sends", "Metrics", "Sends"):
        page.get_by_role("navigation").get_by_role("link", name=link).click()
        expect(page.get_by_role("cell").first).to_be_visible()
    page.get_by_role("link", name="Derby").click()
    page.get_by_role("button", name="40", exact=True).click()
    page.get_by_role("button", name="Close").click()
    with capsys.disabled():
        sys.stdout.write(f"\n{console.longest_interaction()}\n")
